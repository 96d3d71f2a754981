"""One stream's part in a run of ingest: its journal, its index of event ids, its tables, and its results so far."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from deltalake import DeltaTable

from keyfold.errors import IncompatibleState
from keyfold.ingestion.admission import Admission
from keyfold.ingestion.batch import Share
from keyfold.ingestion.ingest_records import IngestCounts, IngestDone, IngestPlan, IngestSummary
from keyfold.ingestion.ingest_settings import Birth, fit_events
from keyfold.ingestion.inspection import ingest_journal, ingest_totals, uncommitted
from keyfold.ingestion.known import KnownFiles
from keyfold.ingestion.segments import Segment, missing_segments, rebuild_segments, sweep_segments
from keyfold.ingestion.sources.kafka.topic import KafkaTopic
from keyfold.ingestion.window import ids_since, oldest_accepted
from keyfold.journal.agreement import check_tables
from keyfold.journal.checksums import record_checksums
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.fail_points import reached
from keyfold.storage.place import Place
from keyfold.stream import Stream
from keyfold.times import to_iso


class Member:
    """A stream that takes part in a run of ingest."""

    def __init__(self, lakehouse: Lakehouse, stream: Stream, birth: Birth, landing: Place | KafkaTopic) -> None:
        self._lakehouse, self._stream, self._birth, self._landing = lakehouse, stream, birth, landing
        self.journal = ingest_journal(lakehouse, stream.name)
        self.known = KnownFiles(birth.folder, self.journal, birth.where, birth.remedy)
        self._last: IngestDone | None = None
        self._segments: tuple[Segment, ...] = ()
        self._since: datetime | None = None
        self._counts = IngestCounts()
        self._batches = self._deferred = 0
        self._warnings: list[str] = []

    @property
    def remedy(self) -> str:
        """The way to start the stream over, for error messages."""
        return self._birth.remedy

    def begin(self) -> None:
        """Check that journal, tables and stream agree, and finish the commits of an interrupted run."""
        birth = self._birth
        opened = check_tables(self.journal, birth.tables, birth.ids, birth.identity, birth.where, birth.remedy)
        fit_events(self._stream, birth, opened["events"])
        self._finish_last(opened)

    def pending(self, conditions: str) -> list[IngestPlan]:
        """Return the unfinished plans of a killed run.

        Raises:
            IncompatibleState: the plans have other conditions. By the old ones, another stream may have left rows to this one;
                by the new ones, this one would leave them to the other, and they would be in no table.
        """
        plans = self.journal.pending()
        if other := next((plan.conditions for plan in plans if plan.conditions != conditions), None):
            raise IncompatibleState(
                f"{self._birth.where} was interrupted, and the conditions (where) of the streams that share its landing have "
                f"changed since; set them back ({other}), run it once, then change them"
            )
        return plans

    def oldest(self, *, any_age: bool) -> datetime | None:
        """Return the oldest event time that batches planned now accept; None if they accept any."""
        events, last = self._birth.tables["events"], self.journal.last_done()
        return None if any_age else oldest_accepted(self._stream, events, last)

    def prepare(self, plan: IngestPlan) -> None:
        """Prepare for the plans of a run, of which `plan` is the first."""
        self._last, self._since = self.journal.last_done(), ids_since(self._stream, plan.oldest)
        self._segments = self._live_segments()
        # Files of failed attempts, which no record names, are not part of the index.
        self._sweep()

    def share(self, plan: IngestPlan) -> Share:
        """Return the stream's share of a batch."""
        return Share(self._stream, self._birth, plan, self._last, self._segments)

    def commit(self, done: IngestDone) -> None:
        """Commit the files of a commit record to the tables. Idempotent."""
        birth = self._birth
        reached("commit: before")
        for number, (name, files) in enumerate(done.tables.items()):
            if number:
                reached("commit: one table")
            append_files(birth.tables[name], files, f"{birth.identity}/{name}", done.batch)
        reached("commit: after")
        self._counts += done.counts
        self._batches += 1
        self._deferred += len(done.deferred)
        self._last, self._segments = done, done.segments
        self._sweep()

    def rebuild_index(self, what: str) -> None:
        """Rebuild the damaged index of event ids from the event table."""
        if self._stream.event_id:
            self._segments = self._rebuilt_index(_damaged(self._birth, what))

    def tidy_up(self, checksums_every: timedelta) -> None:
        """Save the known files, compact the journal, and record checksums."""
        # In this order: compaction deletes records of files, which must be in the table of known files by then.
        self.known.keep()
        self.journal.compact()
        done = self.journal.last_done()
        record_checksums(
            self.journal.folder, self._birth.checksummed, done.batch if done else -1, every=checksums_every
        )

    def summary(self, admission: Admission, reread: bool, seconds: float) -> IngestSummary:
        """Summarize the run."""
        return IngestSummary(
            stream=self._stream.name,
            source=str(self._landing.source if isinstance(self._landing, KafkaTopic) else self._landing),
            **vars(self._counts),
            waiting=admission.waiting + self._deferred,
            changed=dict(admission.changed),
            reread=reread,
            totals=ingest_totals(self._lakehouse, self._stream),
            batches=self._batches,
            seconds=seconds,
            warnings=tuple(self._warnings),
        )

    def _finish_last(self, opened: Mapping[str, DeltaTable]) -> None:
        """Finish the commits of a batch that was interrupted after its commit record."""
        done = self.journal.last_done()
        if done is not None and uncommitted(self._birth, done, opened):
            self.commit(done)

    def _live_segments(self) -> tuple[Segment, ...]:
        """Return the live segments of the index of event ids, which is rebuilt from the event table if part of it is gone."""
        last, since = self._last, self._since
        if not self._stream.event_id or last is None:
            return ()
        if last.ids_since is not None and (since is None or since < last.ids_since):
            return self._rebuilt_index(
                f"the index of ids held those since {to_iso(last.ids_since)}, and max_age or duplicate_window is longer now"
            )
        missing = missing_segments(self._birth.segments, last.segments)
        return self._rebuilt_index(_damaged(self._birth, ", ".join(missing[:3]))) if missing else last.segments

    def _rebuilt_index(self, why: str) -> tuple[Segment, ...]:
        self._warnings.append(f"{why}; it was rebuilt from the event table")
        return rebuild_segments(self._birth.segments, self._stream, self._birth.tables["events"], self._since)

    def _sweep(self) -> None:
        sweep_segments(self._birth.segments, {segment.name for segment in self._segments})


def _damaged(birth: Birth, what: str) -> str:
    return f"part of the index of ids in {birth.segments} is gone or damaged ({what})"
