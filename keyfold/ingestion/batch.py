"""Work on a batch of ingest: read its inputs in splits, remove copies between splits, and make its commit record.

A split is a run of consecutive files, so earlier splits have the earlier rows, and a data file spans little time if files
arrive in order of time.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl

from keyfold.ingestion.arrays import DamagedArrayError, open_array
from keyfold.ingestion.duplicates import Ids, Numbers, hash_ranges, kept_at
from keyfold.ingestion.ingest_plans import ids_since, newest_after
from keyfold.ingestion.ingest_records import AdmittedFile, IngestCounts, IngestDone, IngestPlan
from keyfold.ingestion.ingest_settings import IngestSettings
from keyfold.ingestion.kafka.offsets import OffsetRange, ReadTopic
from keyfold.ingestion.listing import source_place
from keyfold.ingestion.segments import Segment, drop_before, merge_segments, open_segment, write_segment
from keyfold.ingestion.split import Split, SplitResult, TopicAccess, WrittenEvents
from keyfold.ingestion.split_reader import read_split
from keyfold.ingestion.split_writer import Rejected, conflicting, write_rejects
from keyfold.journal.records import written_after
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.data_files import WrittenFile, write_data_file
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.reading import read_parquet
from keyfold.runners import Runner, Runners
from keyfold.stream import Stream
from keyfold.times import micros

_SPLIT_BYTES = 8 << 20
"""Minimum bytes of a split: less is not worth a data file."""

_ROWS_AT_ONCE = 4_000_000

_COPIES = {
    "file": pl.Int64,
    "row": pl.Int64,
    "place": pl.Int64,
    "kept_file": pl.Int64,
    "kept_row": pl.Int64,
    "is_equal": pl.Boolean,
}
"""Rows with the id of an earlier row of the batch: their file and position there, their position in the batch, and where the
earlier row is."""


@dataclass(frozen=True)
class Share:
    """A batch of a stream's ingest, before it is read.

    Attributes:
        stream: the stream.
        settings: the settings of its ingest.
        plan: the plan of the batch.
        before: the commit record of the previous batch.
        segments: the live segments of the index of event ids.
        access: how to reach the topic, if the plan reads one.
    """

    stream: Stream
    settings: IngestSettings
    plan: IngestPlan
    before: IngestDone | None
    segments: tuple[Segment, ...]
    access: TopicAccess | None


def work(runners: Runners, lakehouse: Lakehouse, share: Share) -> IngestDone:
    """Read the inputs of a batch, write its data files, and return the commit record, which is not written yet.

    Args:
        runners: choose where the work is done.
        lakehouse: the lakehouse that the plan's source may be relative to.
        share: the batch.

    Raises:
        OSError: a disk is full or fails, or Kafka does not answer; the batch can be repeated.
        DamagedArrayError: part of an index of event ids is damaged; the batch can be repeated once the index is rebuilt.
        KeyfoldError: messages of a topic have expired.
    """
    began = time.monotonic()
    fail_point("work: before")
    plan, settings, stream = share.plan, share.settings, share.stream
    runner = runners.for_bytes(plan.amount)
    splits = [
        Split(
            stream=stream,
            batch=plan.batch,
            oldest=plan.oldest,
            arrived=plan.planned_at,
            events=settings.tables["events"],
            quarantine=settings.tables["quarantine"],
            ids=settings.segments,
            segments=share.segments,
            landing=source_place(lakehouse, plan.source),
            topic=share.access,
            files=tuple((place, input_) for place, input_ in inputs if isinstance(input_, AdmittedFile)),
            ranges=tuple((place, input_) for place, input_ in inputs if isinstance(input_, OffsetRange)),
            threads=_threads(runner, inputs, plan.amount),
        )
        for inputs in _splits(plan, runner.parallelism)
    ]
    # Created here, once, and not by each of the workers that write to it.
    if stream.event_id:
        settings.segments.mkdir(exist_ok=True)
    results = _read(runner, lakehouse, splits)
    fail_point("work: files written")
    record = _record(share, splits, results, began)
    fail_point("work: after")
    return record


def _record(share: Share, splits: Sequence[Split], results: Sequence[SplitResult], began: float) -> IngestDone:
    """Return the commit record of a batch."""
    stream, settings, plan, before = share.stream, share.settings, share.plan, share.before
    written = [file for result in results for file in result.events]
    rejects = [file for result in results for file in result.rejects]
    counts = IngestCounts()
    for result in results:
        counts += result.counts
    if stream.event_id:
        # Workers have counted copies between splits as accepted.
        written, more, changes = _without_copies(share, splits, written)
        rejects, counts = rejects + more, counts + changes
    # Merging before the commit record is safe: merged segments have new names, and old ones stay until it is written.
    new = [events.segment for events in written if events.segment is not None]
    since = ids_since(stream, plan.oldest)
    live = merge_segments(settings.segments, [*drop_before(settings.segments, share.segments, since), *new])
    tables = {
        "events": tuple(events.file for events in written),
        "quarantine": tuple(rejects),
    }
    last_written, last_files = written_after(
        before, plan.batch, {name: files for name, files in tables.items() if files}
    )
    return IngestDone(
        batch=plan.batch,
        run=plan.run,
        finished_at=datetime.now(UTC),
        seconds=time.monotonic() - began,
        tables=tables,
        last_written=last_written,
        last_files=last_files,
        counts=counts,
        totals=(before.totals if before else IngestCounts()) + counts,
        segments=live,
        ids_since=since,
        newest=newest_after(stream, settings.tables["events"], before, tables["events"]),
        deferred=tuple(path for result in results for path in result.deferred),
        topics=_topics_after(before, plan),
    )


def _topics_after(before: IngestDone | None, plan: IngestPlan) -> dict[str, ReadTopic]:
    topics = before.topics if before else {}
    if plan.topic is None:
        return topics
    read = topics.get(plan.source, ReadTopic(id=plan.topic.id, next={}))
    return topics | {plan.source: read.after(plan.topic)}


def _splits(plan: IngestPlan, parallelism: int) -> list[tuple[tuple[int, AdmittedFile | OffsetRange], ...]]:
    """Cut the inputs into consecutive splits of about equal size, at most one per parallel task."""
    total = plan.amount
    inputs = plan.inputs(max(1, min(parallelism, -(-total // _SPLIT_BYTES))))
    count = max(1, min(parallelism, len(inputs), -(-total // _SPLIT_BYTES)))
    splits: list[list[tuple[int, AdmittedFile | OffsetRange]]] = [[] for _ in range(count)]
    bytes_before = 0
    for place, input_ in enumerate(inputs):
        # The middle of an input decides, so that it goes to the split that has most of it.
        middle = bytes_before + input_.size / 2
        splits[min(int(middle * count / total) if total else 0, count - 1)].append((place, input_))
        bytes_before += input_.size
    return [tuple(split) for split in splits if split]


def _threads(runner: Runner, inputs: Sequence[tuple[int, AdmittedFile | OffsetRange]], total: int) -> int:
    """Return the share of all cores that a split gets by its size, of its worker's: one large file may be the only one."""
    if not total:
        return 1
    share = round(runner.parallelism * sum(input_.size for _, input_ in inputs) / total)
    return max(1, min(share, runner.cores_per_worker))


def _read(runner: Runner, lakehouse: Lakehouse, splits: Sequence[Split]) -> list[SplitResult]:
    # Without this check, landing files that only this machine has would be deferred as removed.
    runner.check_shared(lakehouse.home)
    if splits and splits[0].topic is None:
        runner.check_shared(splits[0].landing, writable=False)
    # Only names and counts are collected.
    results = runner.map(read_split, splits)
    # Workers return faults instead of raising them, since Spark would retry and bury the reason in a stack trace.
    if failures := [result.failed for result in results if result.failed is not None]:
        # What repeating the batch does not mend goes before what it does.
        raise min(failures, key=lambda error: (isinstance(error, OSError), isinstance(error, DamagedArrayError)))
    return results


class _Unique(NamedTuple):
    """The files of a batch without copies, those with the rejects of conflicts, and what to add to the counts."""

    events: list[WrittenEvents]
    rejects: list[WrittenFile]
    counts: IngestCounts


def _without_copies(share: Share, splits: Sequence[Split], written: Sequence[WrittenEvents]) -> _Unique:
    """Remove rows with the ids of others in the batch, by rewriting the files that have any."""
    stream, settings = share.stream, share.settings
    events, copies = settings.tables["events"], _copies_between(settings, written, micros(stream.duplicate_window))
    conflicts = copies.filter(~pl.col("is_equal"))
    frame = cache(lambda at: read_parquet(events / written[at].file.path))
    rejects: list[Rejected] = []
    origins = {at: origin for split in splits for at, origin in split.origins.items()}
    for (at,), conflicts_of_file in conflicts.group_by("file", maintain_order=True):
        # Rows that equal a conflict are conflicts too, each with its own line. Workers have counted them as duplicates.
        dropped = open_array(settings.segments / written[at].places)[:, written[at].file.rows :]
        equal = pl.DataFrame({"place": dropped[0], "row": dropped[1]})
        some = pl.concat(
            [conflicts_of_file, conflicts_of_file.drop("place").join(equal, "row").select(conflicts_of_file.columns)]
        )
        old = [frame(file).row(row, named=True) for file, row in some.select("kept_file", "kept_row").iter_rows()]
        rejects += conflicting(stream, origins, frame(at)[some["row"]], some["place"].to_numpy(), old)
    rows_of = {at: rows["row"].to_numpy() for (at,), rows in copies.group_by("file")}
    left: list[WrittenEvents] = []
    for at, part in enumerate(written):
        without = rows_of.get(at)
        if without is None:
            left.append(part)
        elif len(without) < part.file.rows:
            left.append(_rewritten(stream, settings, part, frame(at), without))
    for at, part in enumerate(written):
        if at in rows_of:
            # No commit names this file.
            (events / part.file.path).unlink(missing_ok=True)
        # Row positions are needed only within the batch, not in the index of event ids.
        (settings.segments / part.places).unlink(missing_ok=True)
    files = [write_rejects(settings.tables["quarantine"], share.plan.batch, rejects)] if rejects else []
    duplicates = copies.height - len(rejects)
    return _Unique(left, files, IngestCounts(accepted=-copies.height, quarantined=len(rejects), duplicates=duplicates))


def _copies_between(settings: IngestSettings, written: Sequence[WrittenEvents], window: int) -> pl.DataFrame:
    """Return the rows that have the id of an earlier one, which is kept: where both are, and whether they are equal.

    One range of hashes at a time bounds memory: copies have the same hash, so ranges can be compared independently.
    """
    opened = [open_segment(settings.segments, part.segment) for part in written if part.segment is not None]
    places = [open_array(settings.segments / part.places) for part in written]
    ranges = max(1, -(-sum(map(len, opened)) // _ROWS_AT_ONCE))
    starts = hash_ranges(ranges)
    bounds = [np.append(np.searchsorted(ids.first, starts, "left"), len(ids)) for ids in opened]
    frames = [pl.DataFrame(schema=_COPIES)]
    for at in range(ranges if opened else 0):
        parts = [slice(bound[at], bound[at + 1]) for bound in bounds]
        some = [ids.take(part) for ids, part in zip(opened, parts, strict=True)]
        names = ("first", "second", "time", "content")
        together = Ids(*(np.concatenate([getattr(ids, name) for ids in some]) for name in names))
        order, rows = (
            np.concatenate([positions[n][part] for positions, part in zip(places, parts, strict=True)]) for n in (0, 1)
        )
        files = np.repeat(np.arange(len(some)), [len(ids) for ids in some])
        first = kept_at(together, order, window)
        copies = np.flatnonzero(first >= 0)
        originals = first[copies]
        is_equal = together.content[copies] == together.content[originals]
        columns = (files[copies], rows[copies], order[copies], files[originals], rows[originals], is_equal)
        frames.append(pl.DataFrame(dict(zip(_COPIES, columns, strict=True)), schema=_COPIES))
    return pl.concat(frames)


def _rewritten(
    stream: Stream, settings: IngestSettings, part: WrittenEvents, frame: pl.DataFrame, without: Numbers
) -> WrittenEvents:
    is_kept = np.ones(part.file.rows, np.bool_)
    is_kept[without] = False
    file = write_data_file(frame.filter(pl.Series(is_kept)), settings.tables["events"], stream.event_schema)
    assert part.segment is not None  # noqa: S101 - rows without ids have no copies
    rows = np.asarray(open_array(settings.segments / part.places)[1, : part.file.rows], np.int64)
    ids = open_segment(settings.segments, part.segment).take(is_kept[rows])
    return WrittenEvents(file, write_segment(settings.segments, ids))
