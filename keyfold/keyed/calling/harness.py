"""Run a job in memory, for unit tests: with the engine's call of the step, late routing and clock, and without Spark."""

from collections.abc import Collection, Mapping
from datetime import datetime

import polars as pl

from keyfold.errors import Misconfigured
from keyfold.journal.clock import watermark_after
from keyfold.keyed.calling.calls_in_order import call_step
from keyfold.keyed.calling.step_call import Called, count, refuse_other_keys
from keyfold.keyed.calling.upserts import upserted
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.event_frames import parted_by_input, tagged
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.lookups import conform_lookup
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock
from keyfold.keyed.rows.codec import conform, empty, polars_schema, with_plain_floats
from keyfold.keyed.rows.response_cache import ResponseCache, ResponsesInMemory
from keyfold.stream import INGESTED_AT
from keyfold.stream.refined import expression_of
from keyfold.times import BEGINNING, EPOCH, in_utc


class TestHarness:
    """Runs batches of a job in memory. For late events, each batch counts as a run.

    Attributes:
        state: the rows of state now.
        watermark: the watermark.
        written: rows of each table so far, in the order they were written; of an upsert table the last of each key.

    Example:
        >>> from spark_jobs.jobs.registry import JOBS
        >>> harness = TestHarness(JOBS["ride_summaries"])
        >>> _ = harness.batch()
        >>> harness.written["ride_summaries"].height
        0
    """

    __test__ = False  # its name begins with Test, but it is no test class of pytest

    def __init__(self, job: KeyedJob, responses: ResponseCache | None = None) -> None:
        self._job = job
        self._responses = ResponsesInMemory() if responses is None else responses
        self.state = empty(job.state.schema)
        self.watermark: datetime = BEGINNING
        self.written = {table.name: empty(table.schema) for table in job.tables}
        self._passed_in, self._written_events = 0, 0
        self._reached = dict.fromkeys(job.inputs, BEGINNING)
        self._lookups = {name: empty(lookup.columns) for name, lookup in job.lookups.items()}

    def batch(
        self,
        events: pl.DataFrame | Mapping[str, pl.DataFrame] | None = None,
        processing_time: datetime = EPOCH,
        advance_to: datetime | None = None,
        idle: Collection[str] = (),
    ) -> Called:
        """Run one batch; None is a batch without events, in which only due timers fire.

        Args:
            events: events with the job's event columns, or with those of the event table: the harness then applies the job's
                condition (`where`), makes derived columns, and copies events for each key (`explode`). For a job with several
                inputs, a frame for each input, by name. Inputs without events and unchanged lookups may be left out.
            processing_time: processing time of the batch.
            advance_to: the watermark after the batch, at least.
            idle: inputs that do not hold back the watermark, unless they have events.
        """
        job, previous_watermark = self._job, self.watermark
        came = in_one_frame(job, events)
        # The step sees the watermark before the batch's events and after them, as in a run.
        self._move_watermark(events, idle)
        if advance_to is not None:
            self.advance_to(advance_to)
        watermarks = dict(self._reached)
        self._look_up(events)
        clock = Clock(previous_watermark, self.watermark, processing_time, self._responses, watermarks, self._lookups)
        return self.batch_at(clock, came)

    def batch_at(self, clock: Clock, events: pl.DataFrame) -> Called:
        """Run one batch at a clock, such as a journal has it.

        Args:
            clock: its clock; the watermark is never before the one of the batch before.
            events: events in the job's columns (`KeyedJob.columns`).
        """
        job = self._job
        self.watermark = clock.watermark
        played = count(events, job.events)
        try:
            needed, others = parted(job, self.state, events, clock)
            called = call_step(job, needed, events, clock)
            keys = pl.concat([needed.select(job.key), events.select(job.key)])
            strange = called.changed_keys(job).join(keys, on=job.key, how="anti")
            if strange.height:
                refuse_other_keys(job, strange)
        except Exception as error:
            error.add_note(f"job {job.name}")
            raise
        # Events that were passed in; `assert_nothing_lost` compares them with the events in tables and state.
        self._passed_in += played
        self.state = pl.concat([others, called.state_after(job, needed)])
        for name, rows in called.tables.items():
            self.written[name] = upserted(job, name, self.written[name], rows)
        self._written_events += called.written_events
        return called

    def _look_up(self, events: pl.DataFrame | Mapping[str, pl.DataFrame] | None) -> None:
        if isinstance(events, Mapping):
            for name, lookup in self._job.lookups.items():
                if name in events:
                    self._lookups[name] = conform_lookup(f"lookup {name}", lookup, events[name])

    def _move_watermark(self, events: pl.DataFrame | Mapping[str, pl.DataFrame] | None, idle: Collection[str]) -> None:
        job = self._job
        waited_for: list[datetime] = []
        for name, declared in job.inputs.items():
            # Events that the condition leaves out advance event time too.
            times = _times(job, name, events)
            newest = None if times is None else times.max()
            if isinstance(newest, datetime):
                self._reached[name] = watermark_after(self._reached[name], newest, declared.watermark_delay)
            if newest is not None or name not in idle:
                waited_for.append(self._reached[name])
        self.watermark = max([self.watermark, *([min(waited_for)] if waited_for else [])])

    def assert_nothing_lost(self) -> None:
        """Check that every event is in a table, in state, or late, as the conservation check of a run does.

        Events passed in are counted by `Input.events`; results by the `events` of state and tables.

        Raises:
            AssertionError: the numbers differ; names the places with their numbers of events.
        """
        job, counted = self._job, self.counted()
        if sum(counted.values()) != self._passed_in:
            tables = ", ".join(f"{number:,} in {name}" for name, number in counted.items())
            raise AssertionError(
                f"job {job.name}: {self._passed_in:,} events were passed in, and {sum(counted.values()):,} are counted "
                f"({tables}): the step loses or duplicates events, or `events` of its state or tables counts them wrongly"
            )

    def counted(self) -> dict[str, int]:
        """Return the number of events in each table, and in `state`."""
        counts = {
            table.name: count(self.written[table.name], table.events)
            for table in self._job.tables
            if not table.counts_written
        }
        if len(counts) < len(self._job.tables):
            counts["rows that are replaced by later ones, or are the last"] = self._written_events
        return {**counts, "state": count(self.state, self._job.state.events)}

    def advance_to(self, time: datetime) -> None:
        """Advance the watermark; events behind it are late. It never goes back."""
        self.watermark = max(self.watermark, in_utc(time))


def in_one_frame(job: KeyedJob, events: pl.DataFrame | Mapping[str, pl.DataFrame] | None) -> pl.DataFrame:
    """Return events as the engine has them: in the job's columns, with those of several inputs in one frame."""
    if events is None:
        return empty(job.columns)
    if isinstance(events, pl.DataFrame):
        if len(job.inputs) > 1:
            return with_plain_floats(conform(events, job.columns, "events"))
        events = dict.fromkeys(job.inputs, events)
    names = [*job.inputs, *job.lookups]
    if strangers := events.keys() - set(names):
        raise Misconfigured(f"job {job.name} has no input {', '.join(sorted(strangers))}; it has {', '.join(names)}")
    kinds = polars_schema(job.columns)
    frames = [
        tagged(job.inputs, name, conform(as_read(job.inputs[name], frame), job.inputs[name].schema, "events"), kinds)
        for name, frame in events.items()
        if name in job.inputs
    ]
    # The mapping may have lookups only.
    return with_plain_floats(pl.concat([empty(job.columns), *frames]))


def parted(job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Separate the rows of state of keys with events or a due timer from those of all other keys."""
    times = {DEADLINE: clock.watermark, PROCESSING_DEADLINE: clock.processing_time}
    # Starts with false, since a job without timers has no timer column.
    due = pl.any_horizontal(
        pl.lit(value=False), *(pl.col(name) <= at for name, at in times.items() if name in state.columns)
    )
    kinds = [pl.col(name).cast(state.schema[name]) for name in job.key]
    keys = pl.concat([state.filter(due).select(job.key), events.select(kinds)]).unique()
    needed = state.join(keys, on=job.key, how="semi", maintain_order="left")
    return needed, state.join(keys, on=job.key, how="anti", maintain_order="left")


def as_read(input_: Input, events: pl.DataFrame) -> pl.DataFrame:
    """Return events of an input as its workers read them, from a frame with its columns or with those of the event table.

    The condition, the derived columns and the copies are applied if the frame has the columns that they need. Other columns
    of the event table are dropped. Events without their arrival arrive at their own time.
    """
    derived_columns = {*input_.derived, *input_.computed}
    is_read = _is_read(input_, events, derived_columns)
    # The condition is on stored rows, and not on what is combined of them.
    is_stored = input_.combine is None or not is_read
    if input_.condition is not None and is_stored and set(input_.condition.meta.root_names()) <= set(events.columns):
        events = events.filter(input_.condition)
    if (time := time_in(input_, events)) != input_.event_time and time in events.columns:
        events = events.with_columns(pl.col(time).alias(input_.event_time))
    kinds = polars_schema(input_.schema)
    again = set[str]() if is_read else derived_columns.intersection(input_.stream.event_schema.names)
    events = _with_columns(
        events, {name: expression_of(expression) for name, expression in input_.derived.items()}, kinds, again
    )
    if input_.exploded is not None and events.schema.get(column := input_.exploded.column) != kinds[column]:
        events = input_.exploded.copies_of(events).with_columns(pl.col(column).cast(kinds[column]))
    events = _with_columns(events, input_.computed, kinds, again)
    if INGESTED_AT in input_.schema.names and INGESTED_AT not in events.columns and input_.event_time in events.columns:
        events = events.with_columns(pl.col(input_.event_time).alias(INGESTED_AT))
    if lacking := [name for name in input_.schema.names if name not in events.columns]:
        raise Misconfigured(
            f"the events of {input_.stream.name} lack {', '.join(lacking)}; the job reads {', '.join(input_.schema.names)}"
        )
    surplus = {*input_.stream.event_schema.names, *input_.derived}.difference(input_.schema.names)
    return events.drop(surplus.intersection(events.columns))


def _is_read(input_: Input, events: pl.DataFrame, derived_columns: Collection[str]) -> bool:
    """Return whether a frame has the columns of an input, and not those of the event table, some of which may have their names."""
    table, columns = set(input_.stream.event_schema.names), set(events.columns)
    if own := set(derived_columns).intersection(input_.schema.names) - table:
        return not own.isdisjoint(columns)
    return columns == set(input_.schema.names) != table


def _with_columns(
    events: pl.DataFrame, columns: Mapping[str, pl.Expr], kinds: Mapping[str, pl.DataType], again: Collection[str]
) -> pl.DataFrame:
    """Add the columns that the events do not have yet, and some `again`, as far as they have what these are computed of."""
    derived = {
        name: expression.cast(kinds[name]) if name in kinds else expression
        for name, expression in columns.items()
        if (name in again or not (name in events.columns and name in kinds))
        and set(expression.meta.root_names()) <= set(events.columns)
    }
    return events.with_columns(**derived)


def time_in(input_: Input, events: pl.DataFrame) -> str:
    """Return the column with the event's time in a frame with the columns of an input, or with those of its event table.

    A job that goes by arrival has another one in the event table, where the event's own time stands beside it.
    """
    is_stored = input_.stored_time in events.columns and not _is_read(
        input_, events, {*input_.derived, *input_.computed}
    )
    return input_.stored_time if is_stored or input_.event_time not in events.columns else input_.event_time


def _times(job: KeyedJob, name: str, events: pl.DataFrame | Mapping[str, pl.DataFrame] | None) -> pl.Series | None:
    """Return the event times of one input; None if it has no events."""
    if isinstance(events, pl.DataFrame):
        events = parted_by_input(job.inputs, events)
    if events is None or name not in events:
        return None
    return events[name][time_in(job.inputs[name], events[name])]
