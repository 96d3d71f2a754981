"""Process the planned batches of a run. Inputs that streams share are read once for all of them."""

import time
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from keyfold.ingestion.arrays import DamagedArrayError
from keyfold.ingestion.batch import work
from keyfold.ingestion.ingest_records import IngestDone, IngestPlan
from keyfold.ingestion.member import Member
from keyfold.ingestion.planning import in_step
from keyfold.ingestion.sources.files import Landing
from keyfold.ingestion.sources.kafka.offsets import TopicShare, gone_error
from keyfold.ingestion.sources.kafka.topic import KafkaTopic, topic_id
from keyfold.ingestion.split import TopicAccess
from keyfold.journal.records import Progress, seconds_left
from keyfold.lakehouse import Lakehouse
from keyfold.stream import Stream


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
