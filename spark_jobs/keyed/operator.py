"""The keyed operator: events to blobs, one call a key group with whole tables, blobs back to columns.

Three stages, in the order in which rows pass them:

1. `split_by_key_group` (mapInArrow, before the shuffle) cuts each Arrow batch by key group into IPC blobs.
2. `KeyGroupProcessor` (transformWithState) keeps one blob of state a key group and calls the job's step.
3. `unpack` (mapInArrow, before the sink) turns the emitted blobs of one table into its columns.

Blobs travel with a NULL event time, since Spark drops rows behind the watermark and keeps those without a time; one
clock row a task carries the newest event time to the key group `CLOCK_GROUP`, which has no state, and moves the
watermark.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NoReturn

import polars as pl
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from spark_jobs.keyed.codec import conform, decode, empty, encode
from spark_jobs.keyed.contract import DEADLINE, STALE_AT, Clock, KeyedJob, Step
from spark_jobs.microseconds import EPOCH

CLOCK_GROUP = -1
EVENTS_IN = "#events"
"""Pseudo table of the emitted rows that count events which reached a step."""
OPEN_CHANGE = "#open"
"""Pseudo table of the emitted rows that count by how many events open state grew."""
STATE_VARIABLE = "key_group_state"

BLOBS = StructType(
    [
        StructField("key_group", IntegerType()),
        StructField("event_time", TimestampType()),
        StructField("payload", BinaryType()),
    ]
)
EMITTED = StructType(
    [StructField("table", StringType()), StructField("rows", LongType()), StructField("payload", BinaryType())]
)
STORED = StructType(
    [
        StructField("schema_version", IntegerType()),
        StructField("timer", LongType()),
        StructField("stale_at", LongType()),
        StructField("open_events", LongType()),
        StructField("payload", BinaryType()),
    ]
)
"""State of a key group: timer (event time, ms) and stale_at (processing time, ms) are its earliest, 0 for none."""

_BLOB_ROWS = 1_000_000


class StepError(Exception):
    """A job's step raised; names the job, the key group and a sample key. Marked so the runner finds it in Spark's."""

    MARK = "keyfold step failed: "


def split_by_key_group(job: KeyedJob) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the map side: batches with a `key_group` column and the job's event columns to rows of `BLOBS`."""
    event_time, combine, schema = job.event_time, job.combine, job.events

    def split(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        newest: datetime | None = None
        for table in _gather(batches, _BLOB_ROWS):
            frame = pl.from_arrow(table)
            assert isinstance(frame, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union
            times: Any = frame[event_time].max()
            newest = times if newest is None or times > newest else newest
            groups: list[int] = []
            payloads: list[bytes] = []
            for group, part in _parts(frame):
                events = part if combine is None else conform(combine(part), schema, "combined events")
                groups.append(group)
                payloads.append(encode(events))
            yield _blobs(groups, [None] * len(groups), payloads)
        if newest is not None:
            yield _blobs([CLOCK_GROUP], [newest], [None])

    return split


def unpack(schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the sink side: rows of `EMITTED` of one table to batches of its schema."""

    def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                table = decode(payload.as_buffer()).to_arrow(compat_level=pl.CompatLevel.oldest())
                yield from table.cast(schema).to_batches()

    return unpacked


def route_late(
    job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, watermark: datetime
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Part events from those that are behind the watermark and whose key has no state left."""
    if job.step_decides_late:
        return events, events.clear()
    behind = pl.col(job.event_time) <= watermark
    if not events.select(behind.any()).item():
        return events, events.clear()
    orphans = events.filter(behind).join(state.select(job.key).unique(), on=job.key, how="anti")
    if not orphans.height:
        return events, orphans
    marked = events.with_row_index("#row")
    late = marked.filter(behind).join(state.select(job.key).unique(), on=job.key, how="anti")
    return marked.join(late, on="#row", how="anti").drop("#row"), late.drop("#row")


class KeyGroupProcessor(StatefulProcessor):
    """Runs a job's step on one key group at a time, with its events, its kept rows and the clock."""

    def __init__(self, job: KeyedJob) -> None:
        self._job = job
        self._schedules = [column for column in (DEADLINE, STALE_AT) if column in job.state.names]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._stored = handle.getValueState(STATE_VARIABLE, STORED)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        if key[0] == CLOCK_GROUP:
            for _ in rows:
                pass
            return
        payloads = [row.payload for row in rows if row.payload is not None]
        yield from self._advance(key[0], payloads, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield from self._advance(key[0], [], timerValues)

    def close(self) -> None:
        pass

    def _advance(self, group: int, payloads: list[bytes], timer_values: Any) -> Iterator[Row]:
        job = self._job
        watermark_ms = timer_values.getCurrentWatermarkInMs()
        processing_ms = timer_values.getCurrentProcessingTimeInMs()
        stored = self._stored.get()
        _, timer, stale_at, open_before, kept = stored or (0, 0, 0, 0, None)
        due = 0 < timer <= watermark_ms or 0 < stale_at <= processing_ms
        if not payloads and not due:
            return
        state = empty(job.state) if kept is None else decode(kept)
        events = pl.concat([decode(payload) for payload in payloads]) if payloads else empty(job.events)
        clock = Clock(_moment(watermark_ms), _moment(processing_ms))
        step, late = self._step(group, state, events, clock)
        for table, frame in _emitted(job, step, late):
            yield Row(table=table, rows=frame.height, payload=encode(frame))
        open_now = _count(step.state, job.state_events)
        yield Row(table=EVENTS_IN, rows=_count(events, job.event_count), payload=None)
        yield Row(table=OPEN_CHANGE, rows=open_now - open_before, payload=None)
        self._keep(step.state, open_now, timer, watermark_ms)

    def _step(self, group: int, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> tuple[Step, pl.DataFrame]:
        """Call the step with what is on time; give back its answer, in the declared columns, and all late events."""
        job = self._job
        try:
            on_time, late = route_late(job, state, events, clock.watermark)
            step = job.step(state, on_time, clock)
            late = [late] if step.late is None else [late, conform(step.late, job.events, "late events")]
            unknown = set(step.side) - {table.name for table in job.side_outputs}
            if unknown:
                _refuse(f"the step writes {', '.join(sorted(unknown))}, which the job does not declare")
            checked = Step(
                state=conform(step.state, job.state, "state"),
                output=conform(step.output, job.output, "output"),
                side={
                    table.name: conform(step.side[table.name], table.schema, f"output {table.name}")
                    for table in job.side_outputs
                    if table.name in step.side
                },
            )
        except Exception as error:
            sample = next((frame for frame in (events, state) if frame.height), None)
            key = "none" if sample is None else sample.select(job.key).row(0, named=True)
            raise StepError(
                f"{StepError.MARK}job {job.name}, key group {group}, a key of it {key}: {type(error).__name__}: {error}"
            ) from error
        return checked, pl.concat(late)

    def _keep(self, state: pl.DataFrame, open_events: int, timer: int, watermark_ms: int) -> None:
        """Store the new state and see that its earliest timer, and no other, is registered."""
        deadline = _earliest(state, DEADLINE) if DEADLINE in self._schedules else 0
        stale_at = _earliest(state, STALE_AT) if STALE_AT in self._schedules else 0
        # Spark deletes the millisecond that has just fired after the handler returns: never ask for it again.
        new_timer = max(deadline, watermark_ms + 1) if deadline else 0
        if new_timer != timer:
            if timer > watermark_ms:
                self._handle.deleteTimer(timer)
            if new_timer:
                self._handle.registerTimer(new_timer)
        if state.height:
            self._stored.update((self._job.schema_version, new_timer, stale_at, open_events, encode(state)))
        else:
            self._stored.clear()


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)


def _gather(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Join small batches to tables of about `rows` rows: fewer and larger blobs."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _parts(frame: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    ordered = frame.sort("key_group")
    runs = ordered["key_group"].rle().struct.unnest()
    events = ordered.drop("key_group")
    start = 0
    for length, group in runs.select("len", "value").iter_rows():
        yield group, events.slice(start, length)
        start += length


def _blobs(
    groups: list[int], times: list[datetime | None], payloads: list[bytes | None] | list[bytes]
) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(groups, pa.int32()),
            pa.array(times, pa.timestamp("us", tz="UTC")),
            pa.array(payloads, pa.binary()),
        ],
        names=BLOBS.names,
    )


def _emitted(job: KeyedJob, step: Step, late: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    for table, frame in ((job.name, step.output), *step.side.items(), (job.late_table, late)):
        if frame.height:
            yield table, frame


def _count(frame: pl.DataFrame, events: pl.Expr) -> int:
    return int(frame.select(events).item() or 0)


def _earliest(state: pl.DataFrame, column: str) -> int:
    """The earliest time in a column, in whole milliseconds not before it; 0 where there is none."""
    earliest = state[column].to_physical().min()
    return 0 if earliest is None else -(-int(earliest) // 1000)  # type: ignore[arg-type]


def _moment(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)
