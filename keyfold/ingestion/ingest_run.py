"""An ingest run of one stream: check, plan, work on the planned batches, and commit them."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from deltalake import DeltaTable

from keyfold.ingestion.admission import Admission, select_files
from keyfold.ingestion.arrays import DamagedArrayError
from keyfold.ingestion.batch import Share, work
from keyfold.ingestion.ingest_records import IngestCounts, IngestDone, IngestPlan, IngestSummary
from keyfold.ingestion.ingest_settings import Birth, fit_events, open_ingest
from keyfold.ingestion.inspection import ingest_journal, ingest_totals, uncommitted
from keyfold.ingestion.kafka.offsets import TopicShare, gone_error
from keyfold.ingestion.kafka.topic import KafkaTopic, topic_id
from keyfold.ingestion.known import KnownFiles
from keyfold.ingestion.listing import Landing, source_name
from keyfold.ingestion.planning import cut_files, ids_since, new_offsets, oldest_accepted, plan_batches
from keyfold.ingestion.segments import Segment, missing_segments, rebuild_segments, sweep_segments
from keyfold.ingestion.split import TopicAccess
from keyfold.journal.agreement import check_tables
from keyfold.journal.checksums import record_checksums
from keyfold.journal.records import Progress, seconds_left
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.fail_points import reached
from keyfold.runners import Runners
from keyfold.stream import Stream
from keyfold.times import to_iso


class IngestRun:
    """An ingest run of one stream.

    Args:
        runners: choose where the work is done.
        lakehouse: the lakehouse of the tables.
        stream: the stream.
        landing: the landing folder or topic.
        on_batch: called after each batch is committed.
    """

    def __init__(
        self,
        runners: Runners,
        lakehouse: Lakehouse,
        stream: Stream,
        landing: Landing,
        on_batch: Callable[[Progress], None] | None,
    ) -> None:
        self._runners, self._lakehouse, self._on_batch = runners, lakehouse, on_batch
        self._stream, self._landing, self._birth = stream, landing, open_ingest(lakehouse, stream)
        self._journal = ingest_journal(lakehouse, stream.name)
        self._known = KnownFiles(self._birth.folder, self._journal, self._birth.where, self._birth.remedy)
        self._last: IngestDone | None = None
        self._segments: tuple[Segment, ...] = ()
        self._since: datetime | None = None
        self._admission, self._counts = Admission(), IngestCounts()
        self._batches = self._deferred = 0
        self._warnings: list[str] = []

    def begin(self) -> list[IngestPlan]:
        """Check that journal, tables and stream agree, finish the commits of a killed run, and return its unfinished plans."""
        birth = self._birth
        opened = check_tables(self._journal, birth.tables, birth.ids, birth.identity, birth.where, birth.remedy)
        fit_events(self._stream, birth, opened["events"])
        self._finish_last(opened)
        return self._journal.pending()

    def plan(
        self, *, settle: timedelta, reread_changed: bool, max_bytes_per_batch: int, any_age: bool
    ) -> list[IngestPlan]:
        """Plan batches of what is new in the landing; see `ingest`."""
        if isinstance(self._landing, KafkaTopic):
            source = self._landing.source
            parts = new_offsets(self._journal, self._landing, max_bytes_per_batch, self._birth.remedy)
        else:
            source = source_name(self._lakehouse, self._landing)
            self._admission = select_files(
                self._landing,
                self._known.of(source),
                settle=settle,
                done_marker=self._stream.done_marker,
                reread_changed=reread_changed,
            )
            self._known.note(source, self._admission.touched)
            parts = cut_files(self._admission.files, max_bytes_per_batch)
        last = self._journal.last_done()
        oldest = None if any_age else oldest_accepted(self._stream, self._birth.tables["events"], last)
        return plan_batches(self._journal, source, parts, oldest)

    def work(self, plans: Sequence[IngestPlan]) -> None:
        """Work on planned batches, one after the other."""
        if not plans:
            return
        self._last, self._since = self._journal.last_done(), ids_since(self._stream, plans[0].oldest)
        self._segments = self._live_segments()
        # Files of failed attempts, which no record names, are not part of the index.
        self._sweep()
        began, done_bytes, total = time.monotonic(), 0, sum(plan.size for plan in plans)
        for number, plan in enumerate(plans, 1):
            self._work(plan)
            done_bytes += plan.size
            if self._on_batch is not None:
                seconds = seconds_left(done_bytes, total, time.monotonic() - began)
                self._on_batch(Progress(number, len(plans), done_bytes, total, "bytes", seconds))

    def tidy_up(self, checksums_every: timedelta) -> None:
        """Save the known files, compact the journal, and record checksums."""
        # In this order: compaction deletes records of files, which must be in the table of known files by then.
        self._known.keep()
        self._journal.compact()
        done = self._journal.last_done()
        batch = done.batch if done else -1
        record_checksums(self._journal.folder, self._birth.checksummed, batch, every=checksums_every)

    def summary(self, reread: bool, seconds: float) -> IngestSummary:
        """Summarize the run."""
        return IngestSummary(
            stream=self._stream.name,
            source=str(self._landing.source if isinstance(self._landing, KafkaTopic) else self._landing),
            **vars(self._counts),
            waiting=self._admission.waiting + self._deferred,
            changed=dict(self._admission.changed),
            reread=reread,
            totals=ingest_totals(self._lakehouse, self._stream),
            batches=self._batches,
            seconds=seconds,
            warnings=tuple(self._warnings),
        )

    def _work(self, plan: IngestPlan) -> None:
        # This order makes ingest exactly once: first rows are written, then a commit record names them, then tables commit.
        access = self._access(plan.topic) if plan.topic else None
        try:
            done = self._read(plan, access)
        except DamagedArrayError as error:
            # Nothing of the batch is committed yet, so it can be repeated with a rebuilt index.
            self._segments = self._rebuilt_index(_damaged(self._birth, str(error)))
            done = self._read(plan, access)
        # Check again after reading: messages of a topic that was replaced meanwhile must not be committed.
        if plan.topic and access and not access.is_gone and self._access(plan.topic).is_gone:
            raise gone_error(plan.topic.name, self._birth.remedy)
        # From the record on, an interrupted run is finished from it.
        self._journal.write_done(done)
        self._commit(done)

    def _read(self, plan: IngestPlan, access: TopicAccess | None) -> IngestDone:
        share = Share(self._stream, self._birth, plan, self._last, self._segments, access)
        return work(self._runners, self._lakehouse, share)

    def _commit(self, done: IngestDone) -> None:
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

    def _access(self, share: TopicShare) -> TopicAccess:
        """Return how to read a plan's topic, after a check that it is the topic that was planned."""
        own = self._landing if isinstance(self._landing, KafkaTopic) and self._landing.name == share.name else None
        # A killed run may have planned another topic than this run reads.
        topic = own or KafkaTopic(share.name)
        is_gone = topic_id(topic) != share.id
        if is_gone and not topic.anew:
            raise gone_error(share.name, self._birth.remedy)
        return TopicAccess(
            share.name,
            topic.settings.bootstrap,
            tuple(sorted(topic.settings.conf)),
            topic.on_gap == "record",
            is_gone,
            share.arrived_after,
        )

    def _finish_last(self, opened: Mapping[str, DeltaTable]) -> None:
        """Finish the commits of a batch that was interrupted after its commit record."""
        done = self._journal.last_done()
        if done is not None and uncommitted(self._birth, done, opened):
            self._commit(done)

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
