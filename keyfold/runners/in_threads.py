"""Call functions in threads, a few ahead of what is consumed: how all cores read one large file, or the parts of a state."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def in_threads(tasks: Iterable[Callable[[], Result]], threads: int) -> Iterator[Result]:
    """Call functions, and yield their results in order. At most one more than threads is held.

    Args:
        tasks: functions, which release the lock of Python's interpreter for most of their time, if they are to gain. They are taken in
            the caller's thread.
        threads: number of threads; with one, nothing is done ahead.

    Raises:
        Exception: what a function raises, where its result would be.

    Example:
        >>> list(in_threads([lambda: 1, lambda: 2], threads=2))
        [1, 2]
    """
    if threads < 2:
        for task in tasks:
            yield task()
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting = deque[Future[Result]]()
        try:
            for task in tasks:
                waiting.append(pool.submit(task))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
