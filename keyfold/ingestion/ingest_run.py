"""An ingest run of one stream: check, plan, work on the planned batches, and commit them."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from deltalake import DeltaTable

from keyfold.errors import KeyfoldError, in_few_lines
from keyfold.ingestion.admission import Admission, select_files
from keyfold.ingestion.arrays import DamagedArrayError
from keyfold.ingestion.batch import Share, work
from keyfold.ingestion.ingest_plans import (
    MAX_BYTES_PER_BATCH,
    cut_files,
    ids_since,
    new_offsets,
    oldest_accepted,
    plan_batches,
)
from keyfold.ingestion.ingest_records import IngestCounts, IngestDone, IngestPlan, IngestSummary
from keyfold.ingestion.ingest_settings import IngestSettings, fit_events, open_ingest
from keyfold.ingestion.inspection import ingest_journal
from keyfold.ingestion.kafka.offsets import TopicShare, gone_error
from keyfold.ingestion.kafka.topic import KafkaTopic, topic_id
from keyfold.ingestion.known import KnownFiles
from keyfold.ingestion.listing import Landing, source_name
from keyfold.ingestion.segments import Segment, missing_segments, rebuild_segments, sweep_segments
from keyfold.ingestion.split import TopicAccess
from keyfold.journal.agreement import check_tables, has_taken_all
from keyfold.journal.planned_batches import run_batches
from keyfold.journal.records import Progress
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.fail_points import fail_point
from keyfold.runners import Runners
from keyfold.stream import Stream
from keyfold.times import to_iso


def ingest_under_lock(
    runners: Runners,
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing,
    *,
    settle: timedelta,
    reread_changed: bool = False,
    on_batch: Callable[[Progress], None] | None = None,
    max_bytes_per_batch: int = MAX_BYTES_PER_BATCH,
    any_age: bool = False,
) -> IngestSummary:
    """Do what `ingest` does. The caller holds the lock of the stream's ingest.

    Args:
        runners, lakehouse, stream, landing, settle, reread_changed, on_batch, max_bytes_per_batch: as for `ingest`.
        any_age: accept events of any age, ignoring the stream's `max_age`.
    """
    began = time.monotonic()
    try:
        run = _Run(runners, lakehouse, stream, landing, on_batch or (lambda _: None))
        # Plans of a killed run first: otherwise their files would be found new and planned twice.
        run.begin()
        run.work_on_plans()
        admission = Admission()
        if isinstance(landing, KafkaTopic):
            source, parts = landing.source, new_offsets(run.journal, landing, max_bytes_per_batch, run.settings.remedy)
        else:
            source = source_name(lakehouse, landing)
            admission = select_files(
                landing,
                run.known_files.of(source),
                settle=settle,
                done_marker=stream.done_marker,
                reread_changed=reread_changed,
            )
            run.known_files.note(source, admission.touched)
            waiting = [
                f"{landing / path} cannot be read ({why}), and waits" for path, why in admission.unreadable.items()
            ]
            run.warnings += in_few_lines(waiting, "entries wait")
            parts = cut_files(admission.files, max_bytes_per_batch)
        last = run.journal.last_done()
        oldest = None if any_age else oldest_accepted(stream, run.settings.tables["events"], last)
        plan_batches(run.journal, source, parts, oldest)
        run.work_on_plans()
        record = run.tidy_up()
    except OSError as error:
        raise KeyfoldError(
            f"ingest of {stream.name} was interrupted: {error}; correct that and run it again: it continues where it stopped"
        ) from error
    return IngestSummary(
        stream=stream.name,
        source=str(landing.source if isinstance(landing, KafkaTopic) else landing),
        **vars(run.counts),
        waiting=admission.waiting + run.deferred,
        changed=dict(admission.changed),
        reread=reread_changed,
        totals=record.totals if record else IngestCounts(),
        batches=run.batches,
        seconds=time.monotonic() - began,
        warnings=tuple(run.warnings),
    )


class _Run:
    """A run, and what it has done so far: the work of ingest's batches (`BatchWork`)."""

    unit = "bytes"

    def __init__(
        self,
        runners: Runners,
        lakehouse: Lakehouse,
        stream: Stream,
        landing: Landing,
        on_batch: Callable[[Progress], None],
    ) -> None:
        self._runners, self._lakehouse, self._stream, self._landing = runners, lakehouse, stream, landing
        self._on_batch = on_batch
        self.settings, self.journal = open_ingest(lakehouse, stream), ingest_journal(lakehouse, stream.name)
        self.known_files = KnownFiles(self.settings.folder, self.journal, self.settings.label, self.settings.remedy)
        self._segments: tuple[Segment, ...] = ()
        self._since: datetime | None = None
        self._opened: dict[str, DeltaTable] = {}
        self.counts, self.batches, self.deferred, self.warnings = IngestCounts(), 0, 0, list[str]()

    def begin(self) -> None:
        """Check that journal, tables and stream agree, and finish the commits of a killed run."""
        settings = self.settings
        opened = check_tables(
            self.journal, settings.tables, settings.ids, settings.identity, settings.label, settings.remedy
        )
        fit_events(self._stream, settings, opened["events"])
        self._opened = dict(opened)
        record = self.journal.last_done()
        if record is not None and not has_taken_all(record, opened, settings.identity):
            self.commit(record)

    def work_on_plans(self) -> None:
        """Work on the planned batches, one after the other."""
        if not (plans := self.journal.pending()):
            return
        self._since = ids_since(self._stream, plans[0].oldest)
        self._segments = self._live_segments(self.journal.last_done())
        # Files of failed attempts, which no record names, are not part of the index.
        self._sweep()
        run_batches(self.journal, plans, self, lambda progress, _: self._on_batch(progress))

    def tidy_up(self) -> IngestDone | None:
        """Save the known files, and compact the journal; return the newest commit record."""
        # In this order: compaction deletes records of files, which must be in the table of known files by then.
        self.known_files.keep(self.counts.files)
        self.journal.compact()
        return self.journal.last_done()

    def work(self, plan: IngestPlan, before: IngestDone | None) -> IngestDone:
        """Read the inputs of a batch, write its data files, and return its commit record."""
        access = self._access(plan.topic) if plan.topic else None
        try:
            record = self._read(plan, before, access)
        except DamagedArrayError as error:
            # Nothing of the batch is committed yet, so it can be repeated with a rebuilt index.
            self._segments = self._rebuilt_index(_damaged(self.settings, str(error)))
            record = self._read(plan, before, access)
        # Check again after reading: messages of a topic that was replaced meanwhile must not be committed.
        if plan.topic and access and not access.is_gone and self._access(plan.topic).is_gone:
            raise gone_error(plan.topic.name, self.settings.remedy)
        return record

    def _read(self, plan: IngestPlan, before: IngestDone | None, access: TopicAccess | None) -> IngestDone:
        share = Share(self._stream, self.settings, plan, before, self._segments, access)
        return work(self._runners, self._lakehouse, share)

    def commit(self, record: IngestDone) -> None:
        """Commit the files of a commit record to the tables. Idempotent."""
        settings = self.settings
        fail_point("commit: before")
        for number, (name, files) in enumerate(record.tables.items()):
            if number:
                fail_point("commit: one table")
            opened = self._opened.pop(name, None) if files else None
            append_files(settings.tables[name], files, f"{settings.identity}/{name}", record.batch, opened)
        fail_point("commit: after")
        self.counts += record.counts
        self.batches += 1
        self.deferred += len(record.deferred)
        self._segments = record.segments
        self._sweep()

    def _access(self, share: TopicShare) -> TopicAccess:
        """Return how to read a plan's topic, after a check that it is the topic that was planned."""
        own = self._landing if isinstance(self._landing, KafkaTopic) and self._landing.name == share.name else None
        # A killed run may have planned another topic than this run reads.
        topic = own or KafkaTopic(share.name)
        is_gone = topic_id(topic) != share.id
        if is_gone and not topic.reset:
            raise gone_error(share.name, self.settings.remedy)
        return TopicAccess(
            share.name,
            topic.settings.bootstrap,
            tuple(sorted(topic.settings.conf)),
            topic.on_gap == "record",
            is_gone,
            share.arrived_after,
        )

    def _live_segments(self, last: IngestDone | None) -> tuple[Segment, ...]:
        """Return the live segments of the index of event ids, which is rebuilt from the event table if part of it is gone."""
        since = self._since
        if not self._stream.event_id or last is None:
            return ()
        if last.ids_since is not None and (since is None or since < last.ids_since):
            return self._rebuilt_index(
                f"the index of ids held those since {to_iso(last.ids_since)}, and max_age or duplicate_window is longer now"
            )
        missing = missing_segments(self.settings.segments, last.segments)
        return self._rebuilt_index(_damaged(self.settings, ", ".join(missing[:3]))) if missing else last.segments

    def _rebuilt_index(self, why: str) -> tuple[Segment, ...]:
        self.warnings.append(f"{why}; it was rebuilt from the event table")
        return rebuild_segments(self.settings.segments, self._stream, self.settings.tables["events"], self._since)

    def _sweep(self) -> None:
        sweep_segments(self.settings.segments, {segment.name for segment in self._segments})


def _damaged(settings: IngestSettings, parts: str) -> str:
    return f"part of the index of ids in {settings.segments} is gone or damaged ({parts})"
