"""A run of ingest: everything new in a landing folder, or a topic, goes to the stream's tables, and the run ends."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from keyfold.errors import KeyfoldError, Misconfigured, NotFound
from keyfold.ingestion.admission import Admission, select_files
from keyfold.ingestion.arrays import DamagedArrayError
from keyfold.ingestion.batch import work
from keyfold.ingestion.ingest_settings import REBUILD, RECORD, Birth, fit_events, open_ingest
from keyfold.ingestion.inspection import ingest_journal, ingest_totals, uncommitted
from keyfold.ingestion.known import KnownFiles
from keyfold.ingestion.planning import MAX_BYTES_PER_BATCH, cut_files, new_offsets, plan_batches
from keyfold.ingestion.records import IngestCounts, IngestDone, IngestPlan
from keyfold.ingestion.segments import Segment, missing_segments, rebuild_segments, sweep_segments
from keyfold.ingestion.sources.kafka.offsets import TopicShare, gone_error
from keyfold.ingestion.sources.kafka.topic import KafkaTopic, topic_id
from keyfold.ingestion.sources.places import source_name
from keyfold.ingestion.split import TopicAccess
from keyfold.ingestion.summary import IngestSummary
from keyfold.ingestion.window import ids_since, oldest_accepted
from keyfold.journal.agreement import check_tables
from keyfold.journal.checksums import record_checksums
from keyfold.journal.progress import Progress, seconds_left
from keyfold.lakehouse import Lakehouse, exclusive
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.fail_points import reached
from keyfold.storage.object_path import ObjectPath
from keyfold.storage.place import Place
from keyfold.storage.reachable import check_conditions
from keyfold.stream import Stream
from keyfold.times import to_iso

Landing = Place | KafkaTopic
"""Where events come from: a folder of files, on a disk or in a bucket, or a topic of Kafka."""


def ingest(
    spark: SparkSession,
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing | None = None,
    *,
    settle: timedelta = timedelta(0),
    reread_changed: bool = False,
    on_batch: Callable[[Progress], None] | None = None,
    max_bytes_per_batch: int = MAX_BYTES_PER_BATCH,
) -> IngestSummary:
    """Ingest what is new in a landing folder, or in a topic; killed at any moment, run it again.

    Files are known by their paths and read once, so only those that are whole are read: see `sources.files` for what
    makes a file whole. Of a topic the journal knows by partition up to which offset it was read.

    Args:
        spark: the session.
        lakehouse: where the tables are.
        stream: what the files hold.
        landing: the folder, read with its subfolders, or the topic; by default the lakehouse's own folder for the stream.
        settle: how long a file must have stayed as it is; 0 where nobody writes while this runs. A stream with
            done-markers goes by them.
        reread_changed: read files again that have changed since they were read; what is in the tables already is
            dropped by its id.
        on_batch: called after each batch is committed.
        max_bytes_per_batch: size of the files that one batch takes; it takes one at least. A message is taken to have
            `MESSAGE_BYTES`.

    Raises:
        KeyfoldError: the folder is missing or cannot be read, Kafka does not answer, a topic is not the one that was read
            or has lost messages, the tables, the journal and the stream do not fit each
            other, a disk is full, or the stream is being ingested already.

    Example:
        >>> import keyfold
        >>> from spark_jobs.streams import STREAMS
        >>> with keyfold.build_session() as spark:  # doctest: +SKIP
        ...     keyfold.ingestion(spark, keyfold.Lakehouse("~/lakehouse"), STREAMS["ride_points"]).accepted
        1200
    """
    if reread_changed and not stream.event_id:
        raise Misconfigured(
            f"{stream.name} has no event id, so rows that are read again would count twice: changed files cannot be "
            "read again; land what is new in files of their own"
        )
    if reread_changed and stream.goes_by_arrival:
        raise Misconfigured(
            f"{stream.name} takes messages without a time of their own, which read again would have another one, and after "
            f"{stream.duplicate_window} would count twice: changed files cannot be read again; land what is new in "
            "files of their own"
        )
    with ingest_lock(lakehouse, stream, landing) as folder:
        return ingest_under_lock(
            spark,
            lakehouse,
            stream,
            folder,
            settle=settle,
            reread_changed=reread_changed,
            on_batch=on_batch,
            max_bytes_per_batch=max_bytes_per_batch,
        )


@contextmanager
def ingest_lock(lakehouse: Lakehouse, stream: Stream, landing: Landing | None) -> Iterator[Landing]:
    """Hold a stream's ingest, for one run or for many; gives the landing folder, or the topic.

    Raises:
        KeyfoldError: the folder is missing, a rebuild broke off, the stream is being ingested already, or the home is in a
            bucket whose store keeps no conditions.
    """
    landing = require_landing(lakehouse, stream, landing)
    folder = lakehouse.ingest(stream.name)
    check_conditions(folder)
    # One run a stream, not a source: duplicates are looked up among events that nobody else may add to meanwhile.
    with exclusive(folder, f"ingest of {stream.name}"):
        if (folder / REBUILD).exists():
            raise KeyfoldError(
                f"ingest of {stream.name}: a rebuild of its tables broke off; finish it with "
                f"`{lakehouse.command('ingest', stream.name, '--rebuild')}`"
            )
        yield landing


def require_landing(lakehouse: Lakehouse, stream: Stream, landing: Landing | None) -> Landing:
    """The landing folder that a run reads, which exists, or the topic.

    Raises:
        KeyfoldError: the folder is missing.
    """
    if isinstance(landing, KafkaTopic):
        return landing
    landing = (landing or lakehouse.landing(stream.name)).expanduser().resolve()
    # A bucket's folder is there while something is in it: who removes what was read empties it for good reason.
    is_emptied = isinstance(landing, ObjectPath) and (lakehouse.ingest(stream.name) / RECORD).exists()
    if not is_emptied and not landing.is_dir():
        raise NotFound(f"the landing folder {landing} is not there; create it and put files of {stream.name} in it")
    return landing


def ingest_under_lock(
    spark: SparkSession,
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing,
    *,
    settle: timedelta,
    reread_changed: bool = False,
    on_batch: Callable[[Progress], None] | None = None,
    max_bytes_per_batch: int = MAX_BYTES_PER_BATCH,
    checksums_every: timedelta = timedelta(0),
    any_age: bool = False,
) -> IngestSummary:
    """What `ingest` does, for whoever holds the lock of the stream's ingest.

    Args:
        spark, lakehouse, stream, landing, settle, reread_changed, on_batch, max_bytes_per_batch: as of `ingest`.
        checksums_every: how often checksums are recorded.
        any_age: accept events of any age, whatever the stream's `max_age`.
    """
    began = time.monotonic()
    try:
        run = _Run(spark, lakehouse, stream, open_ingest(lakehouse, stream), landing, on_batch)
        run.begin()
        # First what a killed run had planned: its files would else be found new, and be planned twice.
        run.do(run.journal.pending())
        if isinstance(landing, KafkaTopic):
            admission = Admission()
            shares = new_offsets(run.journal, landing, max_bytes_per_batch, run.remedy)
            run.do(plan_batches(run.journal, landing.source, shares, run.oldest(any_age=any_age)))
        else:
            source = source_name(lakehouse, landing)
            admission = select_files(
                landing,
                run.known.of(source),
                settle=settle,
                done_marker=stream.done_marker,
                reread_changed=reread_changed,
            )
            run.known.note(source, admission.touched)
            parts = cut_files(admission.files, max_bytes_per_batch)
            run.do(plan_batches(run.journal, source, parts, run.oldest(any_age=any_age)))
        run.tidy_up(checksums_every)
    except OSError as error:
        raise KeyfoldError(
            f"ingest of {stream.name} broke off: {error}; mend that and run it again: it goes on where it was"
        ) from error
    return run.summary(admission, reread_changed, time.monotonic() - began)


class _Run:
    """What has come of a run so far."""

    def __init__(
        self,
        spark: SparkSession,
        lakehouse: Lakehouse,
        stream: Stream,
        birth: Birth,
        landing: Landing,
        on_batch: Callable[[Progress], None] | None,
    ) -> None:
        self._spark, self._lakehouse, self._stream, self._on_batch = spark, lakehouse, stream, on_batch
        self._birth, self._landing = birth, landing
        self.journal = ingest_journal(lakehouse, stream.name)
        self._counts = IngestCounts()
        self._batches = self._deferred = 0
        self._warnings: list[str] = []
        self.known = KnownFiles(self._birth.folder, self.journal, self._birth.where, self._birth.remedy)

    @property
    def remedy(self) -> str:
        return self._birth.remedy

    def begin(self) -> None:
        """See that journal, tables and stream are of one story, and finish what an earlier run had begun to commit."""
        birth = self._birth
        opened = check_tables(self.journal, birth.tables, birth.ids, birth.identity, birth.where, birth.remedy)
        fit_events(self._stream, birth, opened["events"])
        self._finish_last(opened)

    def oldest(self, *, any_age: bool) -> datetime | None:
        """The least event time that batches accept which are planned now; None where they accept any."""
        events, last = self._birth.tables["events"], self.journal.last_done()
        return None if any_age else oldest_accepted(self._stream, events, last)

    def do(self, plans: Sequence[IngestPlan]) -> None:
        """Do what plans say, batch by batch."""
        if not plans:
            return
        began, done_bytes = time.monotonic(), 0
        sizes = [plan.size for plan in plans]
        last = self.journal.last_done()
        # Of all plans the same: they are of one run.
        since = ids_since(self._stream, plans[0].oldest)
        segments = self._live_segments(last, since)
        # What a failed attempt left: no record names it, so it is no part of the index.
        sweep_segments(self._birth.segments, {segment.name for segment in segments})
        for at, plan in enumerate(plans):
            # The order is the safety: rows are written, then named in a commit record, then the tables take them.
            access = self._access(plan.topic) if plan.topic else None
            try:
                done = self._work(plan, last, segments, access)
            except DamagedArrayError as error:
                # Nothing of the batch counts yet: it is worked on again with an index that is whole.
                anew = self._index_made_anew(_damaged(self._birth, str(error)), since)
                done = self._work(plan, last, anew, access)
            if plan.topic and access and not access.is_gone and self._access(plan.topic).is_gone:
                raise gone_error(plan.topic.name, self._birth.remedy)
            self.journal.write_done(done)
            self._commit(done)
            last, segments = done, done.segments
            sweep_segments(self._birth.segments, {segment.name for segment in segments})
            done_bytes += sizes[at]
            left = seconds_left(done_bytes, sum(sizes), time.monotonic() - began)
            if self._on_batch is not None:
                self._on_batch(Progress(at + 1, len(plans), done_bytes, sum(sizes), "bytes", left))

    def _access(self, share: TopicShare) -> TopicAccess:
        """How a plan's topic is read; sees that it is the one that was planned."""
        own = self._landing if isinstance(self._landing, KafkaTopic) and self._landing.name == share.name else None
        # Of a run that was killed; this one reads something else.
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

    def tidy_up(self, checksums_every: timedelta) -> None:
        """Keep what is known of files in few records, and the journal short; record the files' checksums."""
        # In this order: the journal lets go of records that the table must have by then.
        self.known.keep()
        self.journal.compact()
        done = self.journal.last_done()
        record_checksums(
            self.journal.folder, self._birth.checksummed, done.batch if done else -1, every=checksums_every
        )

    def summary(self, admission: Admission, reread: bool, seconds: float) -> IngestSummary:
        """What the run did."""
        counts = self._counts
        return IngestSummary(
            stream=self._stream.name,
            source=str(self._landing.source if isinstance(self._landing, KafkaTopic) else self._landing),
            files=counts.files,
            rows_read=counts.rows_read,
            accepted=counts.accepted,
            quarantined=counts.quarantined,
            duplicates=counts.duplicates,
            untimed=counts.untimed,
            waiting=admission.waiting + self._deferred,
            changed=dict(admission.changed),
            reread=reread,
            totals=ingest_totals(self._lakehouse, self._stream),
            batches=self._batches,
            seconds=seconds,
            warnings=tuple(self._warnings),
        )

    def _finish_last(self, opened: Mapping[str, DeltaTable]) -> None:
        """Make the commits of a batch that broke off after its commit record."""
        done = self.journal.last_done()
        if done is not None and uncommitted(self._birth, done, opened):
            self._commit(done)

    def _commit(self, done: IngestDone) -> None:
        """Let the tables take what a commit record names; what they took before they do not take again."""
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

    def _live_segments(self, last: IngestDone | None, since: datetime | None) -> tuple[Segment, ...]:
        """The index of ids, made anew from the event table where part of it is gone."""
        if not self._stream.event_id or last is None:
            return ()
        if last.ids_since is not None and (since is None or since < last.ids_since):
            what = f"the index of ids held those since {to_iso(last.ids_since)}, and max_age or duplicate_window is longer now"
            return self._index_made_anew(what, since)
        missing = missing_segments(self._birth.segments, last.segments)
        return self._index_made_anew(_damaged(self._birth, ", ".join(missing[:3])), since) if missing else last.segments

    def _work(
        self, plan: IngestPlan, last: IngestDone | None, segments: tuple[Segment, ...], access: TopicAccess | None
    ) -> IngestDone:
        return work(self._spark, self._lakehouse, self._stream, self._birth, plan, last, segments, access)

    def _index_made_anew(self, why: str, since: datetime | None) -> tuple[Segment, ...]:
        self._warnings.append(f"{why}; it was made anew from the event table")
        return rebuild_segments(self._birth.segments, self._stream, self._birth.tables["events"], since)


def _damaged(birth: Birth, what: str) -> str:
    return f"part of the index of ids in {birth.segments} is gone or damaged ({what})"
