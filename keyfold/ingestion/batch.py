"""Work on a batch of ingest: read its inputs in splits, remove copies between splits, and make its commit record.

A split is a run of consecutive files, so earlier splits have the earlier rows, and a data file spans little time if files
arrive in order of time.
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
from keyfold.ingestion.sources.files import source_place
from keyfold.ingestion.sources.kafka.offsets import OffsetRange, ReadTopic
from keyfold.ingestion.split import Split, SplitResult, TopicAccess, WrittenEvents
from keyfold.ingestion.split_reader import read_split
from keyfold.ingestion.window import ids_since, newest_after
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.commits import digest_of
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.reading import read_parquet
from keyfold.session.workers import check_shared
from keyfold.stream import Stream
from keyfold.times import micros

_SPLIT_BYTES = 8 << 20
"""Minimum bytes of a split: less is not worth a data file."""

_HERE_BYTES = _SPLIT_BYTES
"""Batches up to this size, which would be one split, are read in this process, since a Spark job takes at least 0.1 s
(1,000 rows: 0.08 s here, 0.16 s in a job; 33,000 rows, 8 MB: 0.20 s and 0.27 s)."""

_ROWS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Share:
    """A batch of a stream's ingest, before it is read.

    Attributes:
        stream: the stream.
        streams: all streams that share its source, its own first.
        birth: the settings of its ingest.
        plan: the plan of the batch.
        before: the commit record of the previous batch.
        segments: the live segments of the index of event ids.
        access: how to reach the topic, if the plan reads one.
    """

    stream: Stream
    streams: tuple[Stream, ...]
    birth: Birth
    plan: IngestPlan
    before: IngestDone | None
    segments: tuple[Segment, ...]
    access: TopicAccess | None


def work(spark: SparkSession, lakehouse: Lakehouse, share: Share) -> IngestDone:
    """Read the inputs of a batch, write its data files, and return the commit record, which is not written yet.

    Args:
        spark: distributes the work.
        lakehouse: the lakehouse that the plan's source may be relative to.
        share: the batch.

    Raises:
        OSError: a disk is full or fails, or Kafka does not answer; the batch can be repeated.
        DamagedArrayError: part of an index of event ids is damaged; the batch can be repeated once the index is rebuilt.
        KeyfoldError: messages of a topic have expired.
    """
    began = time.monotonic()
    reached("work: before")
    plan, birth, stream = share.plan, share.birth, share.stream
    # A small batch does not ask Spark, which the command line starts when it is first asked.
    parallelism = 1 if plan.size <= _SPLIT_BYTES else spark.sparkContext.defaultParallelism
    splits = [
        Split(
            stream=stream,
            streams=share.streams,
            batch=plan.batch,
            oldest=plan.oldest,
            arrived=plan.planned_at,
            events=birth.tables["events"],
            quarantine=birth.tables["quarantine"],
            ids=birth.segments,
            segments=share.segments,
            landing=source_place(lakehouse, plan.source),
            topic=share.access,
            files=tuple((place, one) for place, one in inputs if isinstance(one, AdmittedFile)),
            ranges=tuple((place, one) for place, one in inputs if isinstance(one, OffsetRange)),
        )
        for inputs in _splits(plan, parallelism)
    ]
    # Created here, once, and not by each of the workers that write to it.
    if stream.event_id:
        birth.segments.mkdir(exist_ok=True)
    results = _read(spark, lakehouse, splits)
    reached("work: files written")
    done = _done(share, results, began)
    reached("work: after")
    return done


def _done(share: Share, results: Sequence[SplitResult], began: float) -> IngestDone:
    """Return the commit record of a batch."""
    stream, birth, plan, before = share.stream, share.birth, share.plan, share.before
    written = [one for result in results for one in result.events]
    counts = IngestCounts()
    for result in results:
        counts += result.counts
    if stream.event_id:
        written, copies = _without_copies(stream, birth, written)
        # Workers have counted copies between splits as accepted.
        counts += IngestCounts(accepted=-copies, duplicates=copies)
    # Merging before the commit record is safe: merged segments have new names, and old ones stay until it is written.
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
        # The last batch of each table, for the check that journal and tables agree: a batch without rows makes no commit.
        last_written=(before.last_written if before else {})
        | {name: plan.batch for name, files in tables.items() if files},
        last_files=(before.last_files if before else {})
        | {name: digest_of(files) for name, files in tables.items() if files},
        counts=counts,
        totals=(before.totals if before else IngestCounts()) + counts,
        segments=live,
        ids_since=since,
        newest=newest_after(stream, birth.tables["events"], before, tables["events"]),
        deferred=tuple(path for result in results for path in result.deferred),
        topics=_topics_after(before, plan),
    )


def _topics_after(before: IngestDone | None, plan: IngestPlan) -> dict[str, ReadTopic]:
    known = before.topics if before else {}
    if plan.topic is None:
        return known
    read = known.get(plan.source, ReadTopic(id=plan.topic.id, next={}))
    return known | {plan.source: read.after(plan.topic)}


def _splits(plan: IngestPlan, parallelism: int) -> list[tuple[tuple[int, AdmittedFile | OffsetRange], ...]]:
    """Cut the inputs into consecutive splits of about equal size, at most one per parallel task."""
    total = plan.size
    inputs = plan.inputs(max(1, min(parallelism, -(-total // _SPLIT_BYTES))))
    count = max(1, min(parallelism, len(inputs), -(-total // _SPLIT_BYTES)))
    splits: list[list[tuple[int, AdmittedFile | OffsetRange]]] = [[] for _ in range(count)]
    done = 0
    for place, one in enumerate(inputs):
        # The middle of an input decides, so that it goes to the split that has most of it.
        middle = done + one.size / 2
        splits[min(int(middle * count / total) if total else 0, count - 1)].append((place, one))
        done += one.size
    return [tuple(split) for split in splits if split]


def _read(spark: SparkSession, lakehouse: Lakehouse, splits: Sequence[Split]) -> list[SplitResult]:
    if sum(one.size for split in splits for _, one in (*split.files, *split.ranges)) <= _HERE_BYTES:
        results = [read_split(split) for split in splits]
    else:
        # Without this check, landing files that only this machine has would be deferred as removed.
        check_shared(spark, lakehouse.home)
        if splits[0].topic is None:
            check_shared(spark, splits[0].landing, writable=False)
        # An RDD: only names and counts are collected, and planning a query would take 0.1 s.
        results = spark.sparkContext.parallelize(splits, len(splits)).map(read_split).collect()
    # Workers return faults instead of raising them, since Spark would retry and bury the reason in a stack trace.
    if refused := [result.refused for result in results if result.refused]:
        raise KeyfoldError(refused[0])
    if damaged := [result.damaged for result in results if result.damaged]:
        raise DamagedArrayError(damaged[0])
    faults = [result.fault for result in results if result.fault]
    if faults:
        raise OSError(faults[0])
    return results


def _without_copies(stream: Stream, birth: Birth, written: Sequence[WrittenEvents]) -> tuple[list[WrittenEvents], int]:
    """Remove rows that are copies of others in the batch, by rewriting the files that have any."""
    masks = _copies_between(birth, written, micros(stream.duplicate_window))
    kept: list[WrittenEvents] = []
    for one, copies in zip(written, masks, strict=True):
        if not copies.any():
            kept.append(one)
        elif not copies.all():
            kept.append(_rewritten(stream, birth, one, copies))
        if copies.any():
            # No commit names this file.
            (birth.tables["events"] / one.file.path).unlink(missing_ok=True)
        # Row positions are needed only within the batch, not in the index of event ids.
        (birth.segments / one.places).unlink(missing_ok=True)
    return kept, sum(int(copies.sum()) for copies in masks)


def _copies_between(birth: Birth, written: Sequence[WrittenEvents], window: int) -> list[Mask]:
    """Return the copies among the rows of each file, in its segment's order. One range of hashes at a time bounds memory."""
    opened = [open_segment(birth.segments, one.segment) for one in written if one.segment is not None]
    places = [open_array(birth.segments / one.places)[0] for one in written]
    masks = [np.zeros(len(ids), np.bool_) for ids in opened]
    # Copies have the same hash, so ranges of hashes can be compared independently.
    ranges = max(1, -(-sum(map(len, opened)) // _ROWS_AT_ONCE))
    starts = hash_ranges(ranges)
    bounds = [np.append(np.searchsorted(ids.first, starts, "left"), len(ids)) for ids in opened]
    for at in range(ranges if opened else 0):
        parts = [slice(bound[at], bound[at + 1]) for bound in bounds]
        some = [ids.take(part) for ids, part in zip(opened, parts, strict=True)]
        together = Ids(*(np.concatenate([getattr(ids, name) for ids in some]) for name in ("first", "second", "time")))
        order = np.concatenate([place[part] for place, part in zip(places, parts, strict=True)])
        copies = copies_within(together, order, window)
        # Cut the mask of the concatenated rows back into one mask per file.
        for mask, part, own in zip(
            masks, parts, np.split(copies, np.cumsum([len(ids) for ids in some])[:-1]), strict=True
        ):
            mask[part] = own
    return masks


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
