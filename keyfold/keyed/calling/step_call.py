"""Call a job's step once: route late events, pass the clock, and check the result against the job's declarations."""

from collections.abc import Iterable
from typing import NamedTuple, NoReturn

import polars as pl
import pyarrow as pa

from keyfold.errors import counted
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.event_frames import are_late, parted_by_input
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock, Step
from keyfold.keyed.rows.codec import AnswerError, conform, empty, with_plain_floats
from keyfold.times import BEGINNING, END, micros


class Called(NamedTuple):
    """The result of a step, in the declared columns.

    Attributes:
        state: all rows to keep for the step's keys; if `dropped` is not None, rows to add.
        tables: rows by table, with the late table; tables without rows are left out.
        dropped: keys whose rows are removed before `state` is added; None if `state` replaces the rows of all keys.
        written_events: events in the rows of tables whose events count when they are written (`OutputTable.counts_written`).
    """

    state: pl.DataFrame
    tables: dict[str, pl.DataFrame]
    dropped: pl.DataFrame | None = None
    written_events: int = 0

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


def call_once(job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Called:
    """Call the step once, with all events that are not late.

    Raises:
        AnswerError: the step did not return a `Step` of frames, or columns or tables differ from the declared ones; names
            them.
    """
    is_late = are_late(job.inputs, events, clock.previous_watermark)
    on_time, late = (events.filter(~is_late), events.filter(is_late)) if is_late.any() else (events, events.clear())
    inputs = {**parted_by_input(job.inputs, on_time), **clock.lookups}
    step = job.function(state, inputs if len(inputs) > 1 else on_time, clock)
    _check_step(step)
    # A step that returns no output leaves the default, a frame without columns.
    output = step.output if step.output.width else empty(job.main.schema)
    tables = {job.name: conform(output, job.main.schema, "output")}
    unknown = set(step.side) - {table.name for table in job.own_tables[1:]}
    if unknown:
        _refuse(f"the step writes {', '.join(sorted(unknown))}, which the job does not declare")
    for table in job.own_tables[1:]:
        if table.name in step.side:
            tables[table.name] = conform(step.side[table.name], table.schema, f"output {table.name}")
    if step.late is not None:
        late = pl.concat([late, conform(step.late, job.columns, "late events")])
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
        return conform(step.state, job.state.schema, "state"), None
    added = empty(job.state.schema) if step.add is None else step.add
    key = pa.schema([job.state.schema.field(name) for name in job.key])
    dropped = empty(key) if step.drop is None else conform(step.drop, key, "drop")
    return conform(added, job.state.schema, "add"), dropped


def refuse_other_keys(job: KeyedJob, strange: pl.DataFrame) -> NoReturn:
    """Refuse rows of state, or dropped keys, of keys that the step was not called with.

    Raises:
        AnswerError: always; names their number.
    """
    _refuse(
        f"the step's state has {counted(strange.height, 'row')} of keys ({', '.join(job.key)}) that it was not given: it may change "
        "the state of keys that have events or a row that is due, and of no others"
    )


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
