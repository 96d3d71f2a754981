"""Outages of Kafka, for which a continuous run waits."""

import time
from collections.abc import Callable

from keyfold.errors import KeyfoldError
from keyfold.ingestion.sources.kafka.topic import KafkaTopic, UnreachableError, topic_state

PAUSE = 1.0
"""Seconds between attempts while Kafka is unreachable, besides the time that each attempt waits for an answer."""


def is_unreachable(topic: KafkaTopic, error: KeyfoldError) -> bool:
    """Whether an error means that brokers do not answer now but may later, and not that a topic or a login is wrong."""
    if isinstance(error, UnreachableError):
        return True
    # A worker reports both missing messages and a full disk as an OSError with text: ask the brokers which it was.
    if isinstance(error.__cause__, OSError):
        try:
            topic_state(topic)
        except UnreachableError:
            return True
        except KeyfoldError:
            return False
    return False


class Outages:
    """Reports the beginning and the end of each outage once.

    Args:
        report: called with a line of text; None for no reports.
    """

    def __init__(self, report: Callable[[str], None] | None) -> None:
        self._report_line = report
        self._since: float | None = None

    @property
    def goes_on(self) -> bool:
        """Whether Kafka is unreachable now."""
        return self._since is not None

    def begin(self, error: KeyfoldError) -> None:
        """Record that Kafka did not answer."""
        if self._since is None:
            self._since = time.monotonic()
            self._report(f"{error}. Ingest waits for it")

    def end(self) -> None:
        """Record that Kafka has answered."""
        if self._since is not None:
            self._report(
                f"Kafka is back after {time.monotonic() - self._since:.0f} s: ingest continues where it stopped"
            )
        self._since = None

    def _report(self, text: str) -> None:
        if self._report_line is not None:
            self._report_line(text)
