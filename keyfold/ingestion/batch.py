"""A batch of ingest: its inputs go to splits, what splits could not know of each other is put right, and it is written down.

Splits are consecutive files, so that an earlier split's rows are the earlier ones, and a data file spans little time where
files come in order of time.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import polars as pl
from pyspark.sql import SparkSession

from keyfold.errors import KeyfoldError
from keyfold.ingestion.arrays import DamagedArrayError, open_array
from keyfold.ingestion.duplicates import Ids, Mask, copies_within, hash_ranges
from keyfold.ingestion.ingest_records import AdmittedFile, IngestCounts, IngestDone, IngestPlan
from keyfold.ingestion.ingest_settings import Birth
from keyfold.ingestion.segments import Segment, drop_before, merge_segments, open_segment, write_segment
from keyfold.ingestion.sources.kafka.offsets import OffsetRange, ReadTopic
from keyfold.ingestion.sources.landing_names import source_place
from keyfold.ingestion.split import Output, Split, SplitResult, TopicAccess, Written, WrittenEvents
from keyfold.ingestion.split_reader import read_split
from keyfold.ingestion.window import ids_since, newest_after
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.commits import digest_of
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.parquet import read_parquet
from keyfold.session.workers import check_shared
from keyfold.stream import Stream
from keyfold.times import micros

_SPLIT_BYTES = 8 << 20
"""A split of less is not worth a data file of its own."""

_HERE_BYTES = _SPLIT_BYTES
"""Files of less in all, which would be one split, are read by this process: a Spark job takes a tenth of a second at least,
in which half of them are read (1,000 rows: 0.08 s here, 0.16 s there; 33,000 rows, 8 MB: 0.20 s and 0.27 s)."""

_ROWS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Share:
    """What a batch is to one stream.

    Attributes:
        stream: which.
        birth: its ingest.
        plan: its plan of the batch.
        before: the commit record of its batch before.
        segments: its index of ids that is live.
    """

    stream: Stream
    birth: Birth
    plan: IngestPlan
    before: IngestDone | None
    segments: tuple[Segment, ...]

    @property
    def output(self) -> Output:
        """Where its rows go."""
        tables = self.birth.tables
        return Output(
            self.stream,
            self.plan.batch,
            self.plan.oldest,
            tables["events"],
            tables["quarantine"],
            self.birth.segments,
            self.segments,
        )


def work(
    spark: SparkSession,
    lakehouse: Lakehouse,
    streams: Sequence[Stream],
    shares: Sequence[Share],
    access: TopicAccess | None = None,
) -> list[IngestDone]:
    """Do what plans of the same inputs say, and give back their commit records, which are not written yet.

    Args:
        spark: spreads the work.
        lakehouse: where the source is, if below its home.
        streams: all that share the source, its own first.
        shares: those of them that read it now.
        access: how the plan's topic is reached, if it reads one.

    Raises:
        OSError: a disk is full or fails, or Kafka does not answer; the batch can be done again.
        DamagedArrayError: part of an index of ids is damaged; the batch can be done again once that is made anew.
        KeyfoldError: messages of a topic are gone.
    """
    began = time.monotonic()
    reached("work: before")
    plan = shares[0].plan
    splits = [
        Split(
            tuple(streams),
            tuple(share.output for share in shares),
            plan.planned_at,
            source_place(lakehouse, plan.source),
            access,
            tuple((place, one) for place, one in inputs if isinstance(one, AdmittedFile)),
            tuple((place, one) for place, one in inputs if isinstance(one, OffsetRange)),
        )
        for inputs in _splits(plan, spark.sparkContext.defaultParallelism)
    ]
    for share in shares:
        if share.stream.event_id:
            share.birth.segments.mkdir(exist_ok=True)
    results = _read(spark, lakehouse, splits)
    reached("work: files written")
    deferred = tuple(path for result in results for path in result.deferred)
    found = [
        _done(share, [result.written[at] for result in results], deferred, began) for at, share in enumerate(shares)
    ]
    reached("work: after")
    return found


def _done(share: Share, results: Sequence[Written], deferred: tuple[str, ...], began: float) -> IngestDone:
    """The commit record of a stream's share."""
    stream, birth, plan, before = share.stream, share.birth, share.plan, share.before
    written = [one for result in results for one in result.events]
    counts = IngestCounts()
    for result in results:
        counts += result.counts
    if stream.event_id:
        written, copies = _without_copies(stream, birth, written)
        counts += IngestCounts(accepted=-copies, duplicates=copies)
    new = [one.segment for one in written if one.segment is not None]
    since = ids_since(stream, plan.oldest)
    live = merge_segments(birth.segments, [*drop_before(birth.segments, share.segments, since), *new])
    tables = {
        "events": tuple(one.file for one in written),
        "quarantine": tuple(file for result in results for file in result.rejects),
    }
    return IngestDone(
        batch=plan.batch,
        run=plan.run,
        finished_at=datetime.now(UTC),
        seconds=time.monotonic() - began,
        tables=tables,
        last_written=(before.last_written if before else {})
        | {name: plan.batch for name, files in tables.items() if files},
        last_files=(before.last_files if before else {})
        | {name: digest_of(files) for name, files in tables.items() if files},
        counts=counts,
        totals=(before.totals if before else IngestCounts()) + counts,
        segments=live,
        ids_since=since,
        newest=newest_after(stream, birth.tables["events"], before, tables["events"]),
        deferred=deferred,
        topics=_topics_after(before, plan),
    )


def _topics_after(before: IngestDone | None, plan: IngestPlan) -> dict[str, ReadTopic]:
    known = before.topics if before else {}
    if plan.topic is None:
        return known
    read = known.get(plan.source, ReadTopic(id=plan.topic.id, next={}))
    return known | {plan.source: read.after(plan.topic)}


def _splits(plan: IngestPlan, parallelism: int) -> list[tuple[tuple[int, AdmittedFile | OffsetRange], ...]]:
    """Consecutive inputs, in about as many equal parts as are read at a time."""
    total = plan.size
    inputs = plan.inputs(max(1, min(parallelism, -(-total // _SPLIT_BYTES))))
    count = max(1, min(parallelism, len(inputs), -(-total // _SPLIT_BYTES)))
    splits: list[list[tuple[int, AdmittedFile | OffsetRange]]] = [[] for _ in range(count)]
    done = 0
    for place, one in enumerate(inputs):
        # By its middle, so that an input goes where most of it belongs.
        middle = done + one.size / 2
        splits[min(int(middle * count / total) if total else 0, count - 1)].append((place, one))
        done += one.size
    return [tuple(split) for split in splits if split]


def _read(spark: SparkSession, lakehouse: Lakehouse, splits: Sequence[Split]) -> list[SplitResult]:
    if sum(one.size for split in splits for _, one in (*split.files, *split.ranges)) <= _HERE_BYTES:
        results = [read_split(split) for split in splits]
    else:
        # Else a landing file that only this machine has would seem to have gone while it was read.
        check_shared(spark, lakehouse.home)
        if splits[0].topic is None:
            check_shared(spark, splits[0].landing, writable=False)
        # As a plain collection: what comes back are names and counts, and planning a query would cost a tenth of a second.
        results = spark.sparkContext.parallelize(splits, len(splits)).map(read_split).collect()
    # A full disk is told and not raised in the worker: Spark would try again, and hide the reason in a stack.
    if refused := [result.refused for result in results if result.refused]:
        raise KeyfoldError(refused[0])
    if damaged := [result.damaged for result in results if result.damaged]:
        raise DamagedArrayError(damaged[0])
    faults = [result.fault for result in results if result.fault]
    if faults:
        raise OSError(faults[0])
    return results


def _without_copies(stream: Stream, birth: Birth, written: Sequence[WrittenEvents]) -> tuple[list[WrittenEvents], int]:
    """Leave out the rows that are copies of others in the batch; files that have any are written again."""
    found = _copies_between(birth, written, micros(stream.duplicate_window))
    kept: list[WrittenEvents] = []
    for one, copies in zip(written, found, strict=True):
        if not copies.any():
            kept.append(one)
        elif not copies.all():
            kept.append(_rewritten(stream, birth, one, copies))
        if copies.any():
            # No commit has named it yet, and none will.
            (birth.tables["events"] / one.file.path).unlink(missing_ok=True)
        # Places are of one batch: the index of ids needs them no more.
        (birth.segments / one.places).unlink(missing_ok=True)
    return kept, sum(int(copies.sum()) for copies in found)


def _copies_between(birth: Birth, written: Sequence[WrittenEvents], window: int) -> list[Mask]:
    """Which rows of each file, in their segment's order, are copies; a range of hashes at a time, to bound memory."""
    opened = [open_segment(birth.segments, one.segment) for one in written if one.segment is not None]
    places = [open_array(birth.segments / one.places)[0] for one in written]
    found = [np.zeros(len(ids), np.bool_) for ids in opened]
    # Copies have the same hash, so each range of hashes can be compared for itself.
    ranges = max(1, -(-sum(map(len, opened)) // _ROWS_AT_ONCE))
    starts = hash_ranges(ranges)
    bounds = [np.append(np.searchsorted(ids.first, starts, "left"), len(ids)) for ids in opened]
    for at in range(ranges if opened else 0):
        parts = [slice(bound[at], bound[at + 1]) for bound in bounds]
        some = [ids.take(part) for ids, part in zip(opened, parts, strict=True)]
        together = Ids(*(np.concatenate([getattr(ids, name) for ids in some]) for name in ("first", "second", "time")))
        order = np.concatenate([place[part] for place, part in zip(places, parts, strict=True)])
        copies = copies_within(together, order, window)
        for mask, part, own in zip(
            found, parts, np.split(copies, np.cumsum([len(ids) for ids in some])[:-1]), strict=True
        ):
            mask[part] = own
    return found


def _rewritten(stream: Stream, birth: Birth, one: WrittenEvents, copies: Mask) -> WrittenEvents:
    events = birth.tables["events"]
    rows = open_array(birth.segments / one.places)[1]
    is_kept = np.ones(one.file.rows, np.bool_)
    is_kept[rows[copies]] = False
    frame = read_parquet(events / one.file.path)
    file = write_data_file(frame.filter(pl.Series(is_kept)), events, stream.event_schema)
    if one.segment is None:
        return WrittenEvents(file)
    return WrittenEvents(file, write_segment(birth.segments, open_segment(birth.segments, one.segment).take(~copies)))
