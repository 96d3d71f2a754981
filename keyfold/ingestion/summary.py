"""The summary of a run of ingest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from keyfold.ingestion.ingest_records import IngestCounts
from keyfold.stream import Stream

_MOST_NAMED = 10


@dataclass(frozen=True)
class IngestSummary:
    """The results of one run.

    Attributes:
        stream: the stream's name.
        source: the landing folder, or `kafka://TOPIC`.
        files, rows_read, accepted, quarantined, duplicates, untimed: this run's counts.
        totals: the counts over all runs and sources of the stream.
        waiting: number of files for a later run: not complete yet, or changed while they were read.
        changed: files that changed after they were read, by path, each with how they changed.
        reread: whether those were read again.
        batches: number of batches, with those that an earlier run had left.
        seconds: duration of the run.
        warnings: other warnings.
        shared: the summaries of the other streams that share the landing.
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
        """Return the warnings, one line each."""
        remedy = (
            "it was read again"
            if self.reread
            else "it was not read again; --reread-changed (in Dagster: reread_changed) does so for streams with an event id"
        )
        changed = list(self.changed.items())[:_MOST_NAMED]
        names = [f"{path} {what} after it was read; {remedy}" for path, what in changed]
        more = len(self.changed) - len(names)
        return [*self.warnings, *names, *([f"and {more:,} more files have changed"] if more else [])]


def together(summaries: Sequence[IngestSummary], stream: Stream) -> IngestSummary:
    """Return the summary of a stream, with those of the streams that share its landing."""
    own = next(summary for summary in summaries if summary.stream == stream.name)
    return replace(own, shared=tuple(summary for summary in summaries if summary is not own))
