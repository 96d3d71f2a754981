"""Let a batch in progress be finished when a signal arrives, where the run ends by itself after it."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

_NUMBERS = count()
_finishing: set[int] = set()


@contextmanager
def batches_are_finished() -> Iterator[None]:
    """Do not cancel Spark's work on SIGINT and SIGTERM within the context: the run has its own way to stop."""
    number = next(_NUMBERS)
    _finishing.add(number)
    try:
        yield
    finally:
        _finishing.discard(number)


def is_finishing() -> bool:
    """Whether a run in this process finishes its batch when a signal arrives."""
    return bool(_finishing)
