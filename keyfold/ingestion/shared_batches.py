"""Process the planned batches of a run. Inputs that streams share are read once for all of them."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from keyfold.errors import IncompatibleState
from keyfold.ingestion.admission import Admission
from keyfold.ingestion.arrays import DamagedArrayError
from keyfold.ingestion.batch import Share, work
from keyfold.ingestion.ingest_records import IngestCounts, IngestDone, IngestPlan, IngestSummary
from keyfold.ingestion.ingest_settings import Birth, fit_events
from keyfold.ingestion.inspection import ingest_journal, ingest_totals, uncommitted
from keyfold.ingestion.known import KnownFiles
from keyfold.ingestion.planning import in_step
from keyfold.ingestion.segments import Segment, missing_segments, rebuild_segments, sweep_segments
from keyfold.ingestion.sources.files import Landing
from keyfold.ingestion.sources.kafka.offsets import TopicShare, gone_error
from keyfold.ingestion.sources.kafka.topic import KafkaTopic, topic_id
from keyfold.ingestion.split import TopicAccess
from keyfold.ingestion.window import ids_since, oldest_accepted
from keyfold.journal.agreement import check_tables
from keyfold.journal.checksums import record_checksums
from keyfold.journal.records import Progress, seconds_left
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


class SharedBatches:
    """The batches of one run, for all its streams."""

    def __init__(
        self,
        spark: SparkSession,
        lakehouse: Lakehouse,
        streams: Sequence[Stream],
        members: Sequence[Member],
        landing: Landing,
        on_batch: Callable[[Progress], None] | None,
    ) -> None:
        self._spark, self._lakehouse, self._streams, self._on_batch = spark, lakehouse, streams, on_batch
        self._members, self._landing = members, landing

    @property
    def conditions(self) -> str:
        """The conditions that assign rows to streams, for plans; empty for a single stream."""
        if len(self._streams) == 1:
            return ""
        return "; ".join(f"{one.name}: {one.condition}" for one in self._streams)

    def do(self, queues: Sequence[Sequence[IngestPlan]]) -> None:
        """Work on the members' plans, batch by batch."""
        steps = in_step(queues)
        if not steps:
            return
        began, done_bytes = time.monotonic(), 0
        left = [list(plans) for plans in queues]
        for member, plans in zip(self._members, queues, strict=True):
            if plans:
                member.prepare(plans[0])
        for_steps = [[left[at].pop(0) for at in step] for step in steps]
        sizes = [plans[0].size for plans in for_steps]
        for at, (step, plans) in enumerate(zip(steps, for_steps, strict=True)):
            self._do([self._members[one] for one in step], plans)
            done_bytes += sizes[at]
            seconds = seconds_left(done_bytes, sum(sizes), time.monotonic() - began)
            if self._on_batch is not None:
                self._on_batch(Progress(at + 1, len(steps), done_bytes, sum(sizes), "bytes", seconds))

    def _do(self, members: Sequence[Member], plans: Sequence[IngestPlan]) -> None:
        # This order makes ingest exactly once: first rows are written, then a commit record names them, then tables commit.
        topic = plans[0].topic
        access = self._access(topic) if topic else None
        try:
            dones = self._work(members, plans, access)
        except DamagedArrayError as error:
            # Nothing of the batch is committed yet, so it can be repeated with a rebuilt index.
            for member in members:
                member.rebuild_index(str(error))
            dones = self._work(members, plans, access)
        # Check again after reading: messages of a topic that was replaced meanwhile must not be committed.
        if topic and access and not access.is_gone and self._access(topic).is_gone:
            raise gone_error(topic.name, self._members[0].remedy)
        # All records before the first commit: from then on, an interrupted run is finished from the records.
        for member, done in zip(members, dones, strict=True):
            member.journal.write_done(done)
        for member, done in zip(members, dones, strict=True):
            member.commit(done)

    def _work(
        self, members: Sequence[Member], plans: Sequence[IngestPlan], access: TopicAccess | None
    ) -> list[IngestDone]:
        shares = [member.share(plan) for member, plan in zip(members, plans, strict=True)]
        return work(self._spark, self._lakehouse, self._streams, shares, access)

    def _access(self, share: TopicShare) -> TopicAccess:
        """Return how to read a plan's topic, after a check that it is the topic that was planned."""
        own = self._landing if isinstance(self._landing, KafkaTopic) and self._landing.name == share.name else None
        # A killed run may have planned another topic than this run reads.
        topic = own or KafkaTopic(share.name)
        is_gone = topic_id(topic) != share.id
        if is_gone and not topic.anew:
            raise gone_error(share.name, self._members[0].remedy)
        return TopicAccess(
            share.name,
            topic.settings.bootstrap,
            tuple(sorted(topic.settings.conf)),
            topic.on_gap == "record",
            is_gone,
            share.arrived_after,
        )
