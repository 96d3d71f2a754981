"""A run of ingest: everything new in a landing folder, or a topic, goes to its streams' tables, and the run ends."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from keyfold.errors import KeyfoldError, Misconfigured, NotFound
from keyfold.ingestion.admission import Admission, select_files
from keyfold.ingestion.arrays import DamagedArrayError
from keyfold.ingestion.batch import work
from keyfold.ingestion.ingest_records import IngestDone, IngestPlan
from keyfold.ingestion.ingest_settings import REBUILD, RECORD, open_ingest
from keyfold.ingestion.member import Member
from keyfold.ingestion.planning import MAX_BYTES_PER_BATCH, cut_new_files, in_step, new_offsets, plan_batches
from keyfold.ingestion.sources.kafka.offsets import TopicShare, gone_error
from keyfold.ingestion.sources.kafka.topic import KafkaTopic, topic_id
from keyfold.ingestion.sources.landing_names import source_name
from keyfold.ingestion.split import TopicAccess
from keyfold.ingestion.summary import IngestSummary, together
from keyfold.journal.progress import Progress, seconds_left
from keyfold.lakehouse import Lakehouse, exclusive
from keyfold.sharing import check_sharing
from keyfold.storage.object_path import ObjectPath
from keyfold.storage.place import Place
from keyfold.storage.reachable import check_conditions
from keyfold.stream import Stream

Landing = Place | KafkaTopic
"""Where events come from: a folder of files, on a disk or in a bucket, or a topic of Kafka."""


def ingest(
    spark: SparkSession,
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing | None = None,
    *,
    sharing: Sequence[Stream] = (),
    settle: timedelta = timedelta(0),
    reread_changed: bool = False,
    on_batch: Callable[[Progress], None] | None = None,
    max_bytes_per_batch: int = MAX_BYTES_PER_BATCH,
) -> IngestSummary:
    """Ingest what is new in a landing folder, or in a topic; killed at any moment, run it again.

    Files are known by their paths and read once, so only those that are whole are read: see `sources.files` for what
    makes a file whole. Of a topic the journal knows by partition up to which offset it was read.

    Where streams share the landing, it is read once for all of them: each row goes to the one whose condition holds
    (`Stream.where`); a row of none, or of several, and what cannot be read at all, to the quarantine of the stream that
    the landing is named after. Each has a journal of its own: one that joins later reads what the others have read.

    Args:
        spark: the session.
        lakehouse: where the tables are.
        stream: what the files hold.
        landing: the folder, read with its subfolders, or the topic; by default the lakehouse's own folder for the stream.
        sharing: all streams that share the landing, its own first, the stream among them (`keyfold.sharing`); none where it
            shares it with none.
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
            other, a disk is full, a stream is being ingested already, or it cannot share its landing so.

    Example:
        >>> import keyfold
        >>> from spark_jobs.streams import STREAMS
        >>> with keyfold.build_session() as spark:  # doctest: +SKIP
        ...     keyfold.ingestion(spark, keyfold.Lakehouse("~/lakehouse"), STREAMS["ride_points"]).accepted
        1200
    """
    streams = check_sharing(sharing or [stream])
    if reread_changed:
        for one in streams:
            _check_reread(one)
    with ingest_lock(lakehouse, streams, landing) as folder:
        summaries = ingest_under_lock(
            spark,
            lakehouse,
            streams,
            folder,
            settle=settle,
            reread_changed=reread_changed,
            on_batch=on_batch,
            max_bytes_per_batch=max_bytes_per_batch,
        )
    return together(summaries, stream)


def _check_reread(stream: Stream) -> None:
    if not stream.event_id:
        raise Misconfigured(
            f"{stream.name} has no event id, so rows that are read again would count twice: changed files cannot be "
            "read again; land what is new in files of their own"
        )
    if stream.goes_by_arrival:
        raise Misconfigured(
            f"{stream.name} takes messages without a time of their own, which read again would have another one, and after "
            f"{stream.duplicate_window} would count twice: changed files cannot be read again; land what is new in "
            "files of their own"
        )


@contextmanager
def ingest_lock(lakehouse: Lakehouse, streams: Sequence[Stream], landing: Landing | None) -> Iterator[Landing]:
    """Hold the ingest of streams that share a landing, for one run or for many; gives the landing folder, or the topic.

    Raises:
        KeyfoldError: the folder is missing, a rebuild broke off, a stream is being ingested already, or the home is in a
            bucket whose store keeps no conditions.
    """
    landing = require_landing(lakehouse, streams[0], landing)
    with ExitStack() as locks:
        # By name: two that take the same locks must not wait for each other.
        for stream in sorted(streams, key=lambda stream: stream.name):
            folder = lakehouse.ingest(stream.name)
            check_conditions(folder)
            # One run a stream, not a source: duplicates are looked up among events that nobody else may add to meanwhile.
            locks.enter_context(exclusive(folder, f"ingest of {stream.name}"))
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
    landing = (landing or lakehouse.landing(stream.landing or stream.name)).expanduser().resolve()
    # A bucket's folder is there while something is in it: who removes what was read empties it for good reason.
    is_emptied = isinstance(landing, ObjectPath) and (lakehouse.ingest(stream.name) / RECORD).exists()
    if not is_emptied and not landing.is_dir():
        raise NotFound(f"the landing folder {landing} is not there; create it and put files of {stream.name} in it")
    return landing


def ingest_under_lock(
    spark: SparkSession,
    lakehouse: Lakehouse,
    streams: Sequence[Stream],
    landing: Landing,
    *,
    only: str | None = None,
    settle: timedelta,
    reread_changed: bool = False,
    on_batch: Callable[[Progress], None] | None = None,
    max_bytes_per_batch: int = MAX_BYTES_PER_BATCH,
    checksums_every: timedelta = timedelta(0),
    any_age: bool = False,
) -> list[IngestSummary]:
    """What `ingest` does, for whoever holds the locks of the streams' ingest.

    Args:
        streams: all that share the landing, its own first.
        spark, lakehouse, landing, settle, reread_changed, on_batch, max_bytes_per_batch: as of `ingest`.
        only: the one stream whose rows are taken; None takes those of all.
        checksums_every: how often checksums are recorded.
        any_age: accept events of any age, whatever the streams' `max_age`.
    """
    began = time.monotonic()
    names = ", ".join(one.name for one in streams)
    try:
        members = [
            Member(lakehouse, one, open_ingest(lakehouse, one), landing)
            for one in streams
            if only is None or one.name == only
        ]
        run = _Run(spark, lakehouse, streams, members, landing, on_batch)
        for member in members:
            member.begin()
        # First what a killed run had planned: its files would else be found new, and be planned twice.
        run.do([member.pending(run.conditions) for member in members])
        if isinstance(landing, KafkaTopic):
            admissions, source = [Admission()] * len(members), landing.source
            journals, remedies = [member.journal for member in members], [member.remedy for member in members]
            parts = new_offsets(journals, landing, max_bytes_per_batch, remedies)
        else:
            source = source_name(lakehouse, landing)
            admissions = select_files(
                landing,
                [member.known.of(source) for member in members],
                settle=settle,
                done_marker=streams[0].done_marker,
                reread_changed=reread_changed,
            )
            for member, admission in zip(members, admissions, strict=True):
                member.known.note(source, admission.touched)
            parts = cut_new_files([admission.files for admission in admissions], max_bytes_per_batch)
        # One time for all: by it, plans of different streams are known to be of the same inputs.
        now = datetime.now(UTC)
        run.do(
            [
                plan_batches(
                    member.journal,
                    source,
                    own,
                    member.oldest(any_age=any_age),
                    now=now,
                    conditions=run.conditions,
                )
                for member, own in zip(members, parts, strict=True)
            ]
        )
        for member in members:
            member.tidy_up(checksums_every)
    except OSError as error:
        raise KeyfoldError(
            f"ingest of {names} broke off: {error}; mend that and run it again: it goes on where it was"
        ) from error
    seconds = time.monotonic() - began
    return [
        member.summary(admission, reread_changed, seconds)
        for member, admission in zip(members, admissions, strict=True)
    ]


class _Run:
    """What members do together: each input is read once for all that read it now."""

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
        """Those by which rows go to streams, for plans; empty of one stream alone."""
        if len(self._streams) == 1:
            return ""
        return "; ".join(f"{one.name}: {one.condition}" for one in self._streams)

    def do(self, queues: Sequence[Sequence[IngestPlan]]) -> None:
        """Do what each member's plans say, batch by batch."""
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
        # The order is the safety: rows are written, then named in a commit record, then the tables take them.
        topic = plans[0].topic
        access = self._access(topic) if topic else None
        try:
            found = self._work(members, plans, access)
        except DamagedArrayError as error:
            # Nothing of the batch counts yet: it is worked on again with an index that is whole.
            for member in members:
                member.make_index_anew(str(error))
            found = self._work(members, plans, access)
        if topic and access and not access.is_gone and self._access(topic).is_gone:
            raise gone_error(topic.name, self._members[0].remedy)
        # All of them before the first commit: after that, whatever breaks off is finished from the records.
        for member, done in zip(members, found, strict=True):
            member.journal.write_done(done)
        for member, done in zip(members, found, strict=True):
            member.commit(done)

    def _work(
        self, members: Sequence[Member], plans: Sequence[IngestPlan], access: TopicAccess | None
    ) -> list[IngestDone]:
        shares = [member.share(plan) for member, plan in zip(members, plans, strict=True)]
        return work(self._spark, self._lakehouse, self._streams, shares, access)

    def _access(self, share: TopicShare) -> TopicAccess:
        """How a plan's topic is read; sees that it is the one that was planned."""
        own = self._landing if isinstance(self._landing, KafkaTopic) and self._landing.name == share.name else None
        # Of a run that was killed; this one reads something else.
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
