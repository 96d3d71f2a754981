"""Times at which Kafka is away, which a continuous run waits for the end of."""

import time
from collections.abc import Callable

from keyfold.errors import KeyfoldError
from keyfold.ingestion.sources.kafka.topic import KafkaTopic, UnreachableError, topic_state

PAUSE = 1.0
"""Seconds from one question to the next while Kafka is away; each waits for an answer besides."""


def is_unreachable(topic: KafkaTopic, error: KeyfoldError) -> bool:
    """Whether an error is of brokers that do not answer now, and may later; not of a topic or a login that is wrong."""
    if isinstance(error, UnreachableError):
        return True
    # Who waited for messages in vain tells in words alone, as who could not write: ask.
    if isinstance(error.__cause__, OSError):
        try:
            topic_state(topic)
        except UnreachableError:
            return True
        except KeyfoldError:
            return False
    return False


class Outages:
    """Tells of each outage once, and of its end.

    Args:
        tell: takes a line for people; None: nobody is told.
    """

    def __init__(self, tell: Callable[[str], None] | None) -> None:
        self._tell = tell
        self._since: float | None = None

    @property
    def goes_on(self) -> bool:
        """Whether Kafka is away."""
        return self._since is not None

    def begin(self, error: KeyfoldError) -> None:
        """Kafka did not answer, or does not yet."""
        if self._since is None:
            self._since = time.monotonic()
            self._say(f"{error}. It is waited for")

    def end(self) -> None:
        """Kafka has answered."""
        if self._since is not None:
            self._say(f"Kafka is back after {time.monotonic() - self._since:.0f} s: ingest goes on where it was")
        self._since = None

    def _say(self, text: str) -> None:
        if self._tell is not None:
            self._tell(text)
