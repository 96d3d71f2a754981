"""What a run of ingest did, for people and for programs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from keyfold.ingestion.ingest_records import IngestCounts
from keyfold.stream import Stream

_TOLD = 10


@dataclass(frozen=True)
class IngestSummary:
    """What one run did.

    Attributes:
        stream: the stream's name.
        source: the landing folder, or the topic as `kafka://TOPIC`.
        files, rows_read, accepted, quarantined, duplicates, untimed: this run's counts.
        totals: the same counts over all runs of all sources of the stream.
        waiting: files that are not whole yet, or changed while they were read, and wait for a later run.
        changed: files that have changed since they were read, with what changed.
        reread: whether those were read again.
        batches: batches of this run, those that an earlier one had left among them.
        seconds: how long it took.
        warnings: what else somebody should know.
        shared: the same of the other streams of its landing, which were read with it.
    """

    stream: str
    source: str
    files: int
    rows_read: int
    accepted: int
    quarantined: int
    duplicates: int
    untimed: int
    waiting: int
    changed: dict[str, str]
    reread: bool
    totals: IngestCounts
    batches: int
    seconds: float
    warnings: tuple[str, ...] = ()
    shared: tuple["IngestSummary", ...] = ()

    def describe(self) -> list[str]:
        """What somebody should know, a line each."""
        remedy = (
            "it was read again"
            if self.reread
            else "it was not read again; --reread-changed (in Dagster: reread_changed) does so for streams with an event id"
        )
        names = [f"{path} {what} after it was read; {remedy}" for path, what in list(self.changed.items())[:_TOLD]]
        more = len(self.changed) - len(names)
        return [*self.warnings, *names, *([f"and {more:,} more files have changed"] if more else [])]


def together(summaries: Sequence[IngestSummary], stream: Stream) -> IngestSummary:
    """The summary of a stream, with those of the streams that were read with it."""
    own = next(one for one in summaries if one.stream == stream.name)
    return replace(own, shared=tuple(one for one in summaries if one is not own))
