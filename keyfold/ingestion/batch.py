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
from keyfold.ingestion.ingest_settings import Birth
from keyfold.ingestion.kafka.offsets import OffsetRange, ReadTopic
from keyfold.ingestion.listing import source_place
from keyfold.ingestion.segments import Segment, drop_before, merge_segments, open_segment, write_segment
from keyfold.ingestion.split import Split, SplitResult, TopicAccess, WrittenEvents
from keyfold.ingestion.split_reader import read_split
from keyfold.ingestion.split_writer import Rejected, conflicting, write_rejects
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.commits import digest_of
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
        birth: the settings of its ingest.
        plan: the plan of the batch.
        before: the commit record of the previous batch.
        segments: the live segments of the index of event ids.
        access: how to reach the topic, if the plan reads one.
    """

    stream: Stream
    birth: Birth
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
    plan, birth, stream = share.plan, share.birth, share.stream
    runner = runners.for_bytes(plan.amount)
    splits = [
        Split(
            stream=stream,
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
            threads=_threads(runner, inputs, plan.amount),
        )
        for inputs in _splits(plan, runner.parallelism)
    ]
    # Created here, once, and not by each of the workers that write to it.
    if stream.event_id:
        birth.segments.mkdir(exist_ok=True)
    results = _read(runner, lakehouse, splits)
    fail_point("work: files written")
    done = _done(share, splits, results, began)
    fail_point("work: after")
    return done


def _done(share: Share, splits: Sequence[Split], results: Sequence[SplitResult], began: float) -> IngestDone:
    """Return the commit record of a batch."""
    stream, birth, plan, before = share.stream, share.birth, share.plan, share.before
    written = [one for result in results for one in result.events]
    rejects = [file for result in results for file in result.rejects]
    counts = IngestCounts()
    for result in results:
        counts += result.counts
    if stream.event_id:
        # Workers have counted copies between splits as accepted.
        written, more, changes = _without_copies(share, splits, written)
        rejects, counts = rejects + more, counts + changes
    # Merging before the commit record is safe: merged segments have new names, and old ones stay until it is written.
    new = [one.segment for one in written if one.segment is not None]
    since = ids_since(stream, plan.oldest)
    live = merge_segments(birth.segments, [*drop_before(birth.segments, share.segments, since), *new])
    tables = {
        "events": tuple(one.file for one in written),
        "quarantine": tuple(rejects),
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
    total = plan.amount
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


def _threads(runner: Runner, inputs: Sequence[tuple[int, AdmittedFile | OffsetRange]], total: int) -> int:
    """Return the share of this process's cores that a split gets by its size: one large file may be the only one."""
    if not runner.in_one_process or not total:
        return 1
    return max(1, round(runner.parallelism * sum(input_.size for _, input_ in inputs) / total))


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
        raise min(failures, key=lambda one: (isinstance(one, OSError), isinstance(one, DamagedArrayError)))
    return results


class _Unique(NamedTuple):
    """The files of a batch without copies, those with the rejects of conflicts, and what to add to the counts."""

    events: list[WrittenEvents]
    rejects: list[WrittenFile]
    counts: IngestCounts


def _without_copies(share: Share, splits: Sequence[Split], written: Sequence[WrittenEvents]) -> _Unique:
    """Remove rows with the ids of others in the batch, by rewriting the files that have any."""
    stream, birth = share.stream, share.birth
    events, copies = birth.tables["events"], _copies_between(birth, written, micros(stream.duplicate_window))
    conflicts = copies.filter(~pl.col("is_equal"))
    frame = cache(lambda at: read_parquet(events / written[at].file.path))
    rejects: list[Rejected] = []
    origins = {at: origin for split in splits for at, origin in split.origins.items()}
    for (at,), found in conflicts.group_by("file", maintain_order=True):
        # Rows that equal a conflict are conflicts too, each with its own line. Workers have counted them as duplicates.
        dropped = open_array(birth.segments / written[at].places)[:, written[at].file.rows :]
        equal = pl.DataFrame({"place": dropped[0], "row": dropped[1]})
        some = pl.concat([found, found.drop("place").join(equal, "row").select(found.columns)])
        old = [frame(file).row(row, named=True) for file, row in some.select("kept_file", "kept_row").iter_rows()]
        rejects += conflicting(stream, origins, frame(at)[some["row"]], some["place"].to_numpy(), old)
    rows_of = {at: rows["row"].to_numpy() for (at,), rows in copies.group_by("file")}
    kept: list[WrittenEvents] = []
    for at, one in enumerate(written):
        without = rows_of.get(at)
        if without is None:
            kept.append(one)
        elif len(without) < one.file.rows:
            kept.append(_rewritten(stream, birth, one, frame(at), without))
    for at, one in enumerate(written):
        if at in rows_of:
            # No commit names this file.
            (events / one.file.path).unlink(missing_ok=True)
        # Row positions are needed only within the batch, not in the index of event ids.
        (birth.segments / one.places).unlink(missing_ok=True)
    files = [write_rejects(birth.tables["quarantine"], share.plan.batch, rejects)] if rejects else []
    duplicates = copies.height - len(rejects)
    return _Unique(kept, files, IngestCounts(accepted=-copies.height, quarantined=len(rejects), duplicates=duplicates))


def _copies_between(birth: Birth, written: Sequence[WrittenEvents], window: int) -> pl.DataFrame:
    """Return the rows that have the id of an earlier one, which is kept: where both are, and whether they are equal.

    One range of hashes at a time bounds memory: copies have the same hash, so ranges can be compared independently.
    """
    opened = [open_segment(birth.segments, one.segment) for one in written if one.segment is not None]
    places = [open_array(birth.segments / one.places) for one in written]
    ranges = max(1, -(-sum(map(len, opened)) // _ROWS_AT_ONCE))
    starts = hash_ranges(ranges)
    bounds = [np.append(np.searchsorted(ids.first, starts, "left"), len(ids)) for ids in opened]
    found = [pl.DataFrame(schema=_COPIES)]
    for at in range(ranges if opened else 0):
        parts = [slice(bound[at], bound[at + 1]) for bound in bounds]
        some = [ids.take(part) for ids, part in zip(opened, parts, strict=True)]
        names = ("first", "second", "time", "content")
        together = Ids(*(np.concatenate([getattr(ids, name) for ids in some]) for name in names))
        order, rows = (np.concatenate([one[n][part] for one, part in zip(places, parts, strict=True)]) for n in (0, 1))
        files = np.repeat(np.arange(len(some)), [len(ids) for ids in some])
        kept = kept_at(together, order, window)
        copies = np.flatnonzero(kept >= 0)
        one = kept[copies]
        is_equal = together.content[copies] == together.content[one]
        columns = (files[copies], rows[copies], order[copies], files[one], rows[one], is_equal)
        found.append(pl.DataFrame(dict(zip(_COPIES, columns, strict=True)), schema=_COPIES))
    return pl.concat(found)


def _rewritten(
    stream: Stream, birth: Birth, one: WrittenEvents, frame: pl.DataFrame, without: Numbers
) -> WrittenEvents:
    is_kept = np.ones(one.file.rows, np.bool_)
    is_kept[without] = False
    file = write_data_file(frame.filter(pl.Series(is_kept)), birth.tables["events"], stream.event_schema)
    assert one.segment is not None  # noqa: S101 - rows without ids have no copies
    rows = np.asarray(open_array(birth.segments / one.places)[1, : one.file.rows], np.int64)
    ids = open_segment(birth.segments, one.segment).take(is_kept[rows])
    return WrittenEvents(file, write_segment(birth.segments, ids))
