"""Call a job's step: route late events, pass the clock, and check the result against the job's declarations.

The operator on Spark and the harness in memory both use it, so that a job behaves the same in tests and in runs.
"""

from collections.abc import Iterable
from typing import NamedTuple, NoReturn

import polars as pl
import pyarrow as pa

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.event_frames import parted_by_input
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock, Step
from keyfold.keyed.rows.codec import AnswerError, conform, empty, with_plain_floats
from keyfold.times import BEGINNING, END, micros


class Called(NamedTuple):
    """The result of a step, in the declared columns.

    Attributes:
        state: all rows to keep for the step's keys; if `dropped` is not None, rows to add.
        tables: rows by table, with the late table; tables without rows are left out.
        dropped: keys whose rows are removed before `state` is added; None if `state` replaces the rows of all keys.
    """

    state: pl.DataFrame
    tables: dict[str, pl.DataFrame]
    dropped: pl.DataFrame | None = None

    def state_after(self, job: KeyedJob, before: pl.DataFrame) -> pl.DataFrame:
        """Apply the result to rows of state, and return the rows after it.

        Args:
            before: the rows that the step was called with, or all rows of some of the keys.
        """
        if self.dropped is None:
            return self.state
        if not self.dropped.height:
            return pl.concat([before, self.state])
        return pl.concat([before.join(self.dropped, on=job.key, how="anti", maintain_order="left"), self.state])

    def changed_keys(self, job: KeyedJob) -> pl.DataFrame:
        """Return the keys that the step has changed; some may repeat."""
        keys = self.state.select(job.key)
        return keys if self.dropped is None else pl.concat([keys, self.dropped])


def call_step(job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Called:
    """Call the step with all events but those that are late by the engine's rule.

    Args:
        state: the rows of keys with events or a due timer.
        events: the events of these keys.

    Raises:
        AnswerError: the step did not return a `Step` of frames, or columns or tables differ from the declared ones; names
            them.
    """
    on_time, late = route_late(job, state, events, clock)
    given = {**parted_by_input(job.inputs, on_time), **clock.lookups} if job.inputs else on_time
    step = job.step(state, given, clock)
    _check_step(step)
    tables = {job.name: conform(step.output, job.output, "output")}
    unknown = set(step.side) - {table.name for table in job.side_outputs}
    if unknown:
        _refuse(f"the step writes {', '.join(sorted(unknown))}, which the job does not declare")
    for table in job.side_outputs:
        if table.name in step.side:
            tables[table.name] = conform(step.side[table.name], table.schema, f"output {table.name}")
    if step.late is not None:
        late = pl.concat([late, conform(step.late, job.events, "late events")])
    tables[job.late_table] = late
    state, dropped = _state(job, step)
    # A row with a NULL key would stay forever, since no event has that key.
    without = [
        name for name in job.key if state[name].null_count() or (dropped is not None and dropped[name].null_count())
    ]
    if without:
        _refuse(f"the step's state has no value in the key's column {', '.join(without)}: no event would ever find it")
    timers = [name for name in (DEADLINE, PROCESSING_DEADLINE) if name in state.columns]
    tables = {name: within_calendar(with_plain_floats(frame)) for name, frame in tables.items() if frame.height}
    return Called(within_calendar(with_plain_floats(state), timers), tables, dropped)


def _state(job: KeyedJob, step: Step) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return the rows of state of a step's result, and the keys that it drops; None if it returned the whole state."""
    if step.add is None and step.drop is None:
        return conform(step.state, job.state, "state"), None
    added = empty(job.state) if step.add is None else step.add
    key = pa.schema([job.state.field(name) for name in job.key])
    dropped = empty(key) if step.drop is None else conform(step.drop, key, "drop")
    return conform(added, job.state, "add"), dropped


def refuse_other_keys(job: KeyedJob, strange: pl.DataFrame) -> NoReturn:
    """Refuse rows of state, or dropped keys, of keys that the step was not called with.

    Raises:
        AnswerError: always; names their number.
    """
    _refuse(
        f"the step's state has {strange.height:,} rows of keys ({', '.join(job.key)}) that it was not given: it may change "
        "the state of keys that have events or a row that is due, and of no others"
    )


def route_late(
    job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Separate the events at or behind the previous watermark whose key has no state."""
    if job.step_decides_late:
        return events, events.clear()
    behind = events[job.event_time] <= clock.previous_watermark
    if not behind.any():
        return events, events.clear()
    # In the order of the events, since the mask below is applied by position.
    is_open = events.select(job.key).join(
        state.select(job.key).unique().with_columns(is_open=pl.lit(value=True)),
        on=job.key,
        how="left",
        maintain_order="left",
    )["is_open"]
    late = behind & is_open.is_null()
    return events.filter(~late), events.filter(late)


def within_calendar(frame: pl.DataFrame, columns: Iterable[str] | None = None) -> pl.DataFrame:
    """Limit the times of a frame to the years 1 to 9999.

    Args:
        frame: a frame that a step returned; the end of a window or a timeout may be any time after the last event.
        columns: the columns to limit; None for all columns of times.
    """
    times = [name for name, kind in frame.schema.items() if kind == _TIME] if columns is None else columns
    # As integers: Python has no `datetime` outside of these years, so a comparison of times would raise.
    outside = [name for name in times if not _is_within(frame[name].to_physical())]
    return frame.with_columns(pl.col(outside).to_physical().clip(_FIRST, _LAST).cast(_TIME)) if outside else frame


def _is_within(times: pl.Series) -> bool:
    first, last = times.min(), times.max()
    return first is None or (first >= _FIRST and last <= _LAST)  # type: ignore[operator]


_TIME = pl.Datetime("us", "UTC")
_FIRST, _LAST = micros(BEGINNING), micros(END)


def count(frame: pl.DataFrame, events: pl.Expr) -> int:
    """Return the number of events in a frame, by an expression of the job."""
    return int(frame.select(events).item() or 0)


def _check_step(step: object) -> None:
    wanted = "return Step(state=..., output=...), with polars.DataFrame for both"
    if not isinstance(step, Step):
        _refuse(f"the step returned {_kind(step)}, not a Step: {wanted}")
    changes = {name: frame for name, frame in (("add", step.add), ("drop", step.drop)) if frame is not None}
    frames = {"state": step.state, **changes, "output": step.output, **step.side}
    if step.late is not None:
        frames["late"] = step.late
    for name, frame in frames.items():
        if not isinstance(frame, pl.DataFrame):
            _refuse(f"the step returned {_kind(frame)} as {name}, not a DataFrame (an empty one has no rows): {wanted}")
    # A step that returns no state leaves the default, a frame without columns.
    if changes and step.state.width:
        _refuse(
            f"the step returned state and {' and '.join(changes)}: state has all rows of its keys, add and drop what changes"
        )


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _refuse(reason: str) -> NoReturn:
    raise AnswerError(reason)
