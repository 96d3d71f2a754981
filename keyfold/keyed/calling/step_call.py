"""Call a job's step: route late events, pass the clock, and check the result against the job's declarations.

The operator on Spark and the harness in memory both use it, so that a job behaves the same in tests and in runs.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple, NoReturn

import polars as pl
import pyarrow as pa

from keyfold.errors import counted
from keyfold.keyed.calling.upserts import keys_of, one_row_per_key
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


def call_step(job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Called:
    """Call the step: first for the keys that have expired, without events, and then with all events that are not late.

    So a key that expires and gets an event in one batch gives the same rows as in two. A key has expired when processing time
    has reached a `processing_deadline` of it; or when the watermark has reached deadlines of it that all of its new events
    come after, unless the job closes keys in order (`KeyedJob.closes_in_order`).

    Args:
        state: the rows of keys with events or a due timer.
        events: the events of these keys.

    Raises:
        AnswerError: the step did not return a `Step` of frames, or columns or tables differ from the declared ones; names
            them.
    """
    return one_row_per_key(job, _called(job, state, events, clock), keys_of(job, state, events))


def _called(job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Called:
    expired = _expired(job, state, events, clock)
    if expired is None:
        return _call(job, state, events, clock)
    before = state.join(expired, on=job.key, how="semi", maintain_order="left")
    heard = before.join(events.select(job.key), on=job.key, how="semi", maintain_order="left")
    if job.closes_in_order and heard.height:
        # By its events the step sees what event time has ended: until then, it closes by processing time alone.
        due, early = heard, replace(clock, watermark=clock.previous_watermark)
        first = _call(job, due, events.clear(), early)
        heard = first.state_after(job, due)
        silent = before.join(events.select(job.key), on=job.key, how="anti", maintain_order="left")
        if silent.height:
            first = _both(job, first, due, _call(job, silent, events.clear(), clock), silent.select(job.key))
    else:
        first = _call(job, before, events.clear(), clock)
        heard = first.state_after(job, before).join(
            events.select(job.key), on=job.key, how="semi", maintain_order="left"
        )
    others = state.join(expired, on=job.key, how="anti", maintain_order="left")
    if not events.height and not others.height:
        return first
    rest = pl.concat([others, heard])
    return _both(job, first, before, _call(job, rest, events, clock), keys_of(job, rest, events))


def _expired(job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> pl.DataFrame | None:
    """Return the keys that have expired before the events; None if there are none, or if one call is as good."""
    found: list[pl.DataFrame] = []
    if PROCESSING_DEADLINE in state.columns:
        found.append(state.filter(pl.col(PROCESSING_DEADLINE) <= clock.processing_time).select(job.key))
    if DEADLINE in state.columns and events.height and not job.closes_in_order:
        # The last of a key's rows that are due: the watermark of the call is the same for all of them.
        due = state.filter(pl.col(DEADLINE) <= clock.watermark).group_by(job.key, maintain_order=True)
        due = due.agg(pl.col(DEADLINE).max())
        if due.height:
            first = events.group_by(job.key).agg(pl.col(job.event_time).min().alias("#first"))
            first = first.with_columns(pl.col(name).cast(state.schema[name]) for name in job.key)
            # Other keys that are due have no events: one call closes them too.
            due = due.join(first, on=job.key, maintain_order="left").filter(pl.col(DEADLINE) < pl.col("#first"))
            found.append(due.select(job.key))
    expired = pl.concat(found).unique(maintain_order=True) if found else None
    return expired if expired is not None and expired.height else None


def _both(job: KeyedJob, first: Called, before: pl.DataFrame, second: Called, called: pl.DataFrame) -> Called:
    """Combine the results of two calls, the second of which had the state after the first.

    Args:
        before: the rows of state that the first was called with.
        called: the keys that the second was called with.
    """
    tables = dict(first.tables)
    for table in job.tables:
        if table.name not in second.tables:
            continue
        rows = [*([first.tables[table.name]] if table.name in first.tables else []), second.tables[table.name]]
        tables[table.name] = pl.concat(rows)
    if first.dropped is None and second.dropped is None:
        kept = first.state.join(called, on=job.key, how="anti", maintain_order="left")
        return Called(pl.concat([kept, second.state]), tables)
    dropped = [
        before.select(job.key) if first.dropped is None else first.dropped,
        called if second.dropped is None else second.dropped,
    ]
    kept = first.state.join(dropped[1], on=job.key, how="anti", maintain_order="left")
    return Called(pl.concat([kept, second.state]), tables, pl.concat(dropped).unique(maintain_order=True))


def _call(job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Called:
    is_late = are_late(job.inputs, events, clock.previous_watermark)
    on_time, late = events.filter(~is_late), events.filter(is_late)
    given = {**parted_by_input(job.inputs, on_time), **clock.lookups}
    step = job.function(state, given if len(given) > 1 else on_time, clock)
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
