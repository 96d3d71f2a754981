"""Event index: every event of a key gets a number: unique, without gaps, from 0, and never another one.

State is one counter row a key, which says the key's next number, and the events that wait. An event waits until the
watermark has passed it; then the events of its key are numbered in order of event time, ties by all other columns, so
that a replay, a restart, a full refresh or another split into micro-batches gives the same numbers. Rows that are the
same in every column are interchangeable.

Counters are never dropped, so no key ever closes and nothing is late: an event that comes behind the watermark takes
the next free number of its key at once. It is the one event whose number depends on when it came.

With `window`, numbers start at 0 in each key and window: the key is then the stream's own and the start of the window, and
where windows overlap an event is numbered in each that it is in, as a copy (`keyed.copies`). A window's counter leaves
state when the watermark has reached the window's end; what comes after that is late for this window, by when it ended
and nothing else.

With `expire_after` a key of which nothing came for so long leaves state, and its next event begins at 0 again: a number is
one of a key's then only until it expires. In event time the silence lies between two events, so that it plays no part how
the stream was split; with `timeout_in=processing_time` it lasts from the run that brought a key's last event, and what waits
of the key is numbered first (`keyed.timeouts`).
"""

from typing import Any, NamedTuple, Self

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field, model_validator

from keyfold import Clock, JobTemplate, KeyedJob, KeyfoldError, Step, Stream, required
from keyfold.columns import passed_on
from keyfold.keyed.job import DEADLINE, STALE_AT, KeysOf, Names, Parted, Timeout, Window, WindowShape
from keyfold.operators.ordering import in_order
from keyfold.operators.periods import period_start, period_starts
from keyfold.stream import TIMESTAMP
from keyfold.times import to_times
from spark_jobs.jobs.expiry import ExpiringParameters
from spark_jobs.jobs.key_lifetimes import cut_lives
from spark_jobs.streams import STREAMS

INDEX = "event_index"
NEXT_INDEX = "next_index"
WINDOW_START, WINDOW_END = "window_start", "window_end"


class EventIndexParameters(ExpiringParameters):
    """Parameters of `event_index`."""

    stream: str = Field("ride_points", description=f"Whose events are numbered: {', '.join(STREAMS)}")
    key: Names = Field(
        ("ride_id",), description="Columns of the stream; events that agree in them are numbered together"
    )
    window: Window | None = Field(
        None,
        description="Numbers start anew in each window, aligned to 1970 UTC: 1h, or 1h every 15m, where an event is numbered "
        "in each of the four that it is in. None: a key's numbers never end",
    )

    @model_validator(mode="after")
    def _windows_end_by_themselves(self) -> Self:
        if self.window is not None and self.expire_after is not None:
            raise ValueError("a window's numbers end with the window; give window or expire_after, not both")
        return self


def build(parameters: EventIndexParameters) -> KeyedJob:
    """Make the job of its parameters.

    Raises:
        KeyfoldError: there is no such stream, or its events cannot be numbered by this key; says by which they can.
    """
    stream, window = _find_stream(parameters), parameters.window
    time = parameters.time_of(stream)
    columns = stream.schema_by(time)
    key = parameters.key if window is None else (*parameters.key, WINDOW_START)
    events = columns if window is None else pa.schema([*columns, _window_start(time)])

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        if window is None:
            return number_events(state, events, clock, time, key, parameters.expiry)
        return number_in_windows(state, events, clock, time, key, window)

    return KeyedJob(
        name="event_index",
        stream=stream,
        key=key,
        **_windows_of(time, window),
        event_time=time,
        events=events,
        state=_state(events, key, parameters.expiry),
        output=_numbered(columns, key, time),
        step=step,
        step_decides_late=True,
        state_events=pl.col(time).count(),
        one_per_key=pl.col(NEXT_INDEX).is_not_null(),
        **parameters.settings(),
    )


EVENT_INDEX = JobTemplate(
    "event_index",
    "Every event with its number among those of its key: from 0, without gaps, in order of event time.",
    EventIndexParameters,
    build,
)


def number_events(
    state: pl.DataFrame,
    events: pl.DataFrame,
    clock: Clock,
    event_time: str,
    key: tuple[str, ...],
    expiry: Timeout | None = None,
) -> Step:
    """The step without windows: see the module's text. Every event is numbered or waits."""
    waits = pl.col(NEXT_INDEX).is_null()
    over, going_on = Parted(state.clear(), state) if expiry is None else expiry.part(state, key, clock)
    came = pl.concat([going_on.filter(waits).select(events.columns), events])
    is_due = pl.col(event_time) <= clock.watermark
    waiting = came.filter(~is_due).with_columns(pl.col(event_time).alias(DEADLINE))
    counted = _count(going_on.filter(~waits), came.filter(is_due), event_time, key, expiry)
    output = [counted.output]
    if over.height:
        ended = over.filter(waits).select(events.columns)
        output.insert(0, _count(over.filter(~waits), ended, event_time, key, expiry).output)
    counters = counted.counters
    if expiry is not None and expiry.in_event_time:
        counters = counters.filter((pl.col(DEADLINE) > clock.watermark).fill_null(value=True))
    rows = pl.concat([counters, waiting], how="diagonal")
    return Step(
        state=rows if expiry is None else expiry.renew(rows, going_on, events, key, clock), output=pl.concat(output)
    )


class _Counted(NamedTuple):
    """Events with their numbers, and all counters then."""

    output: pl.DataFrame
    counters: pl.DataFrame


def _count(
    counters: pl.DataFrame, events: pl.DataFrame, event_time: str, key: tuple[str, ...], expiry: Timeout | None
) -> _Counted:
    """Number events on from their keys' counters; where a key was silent for too long, from 0."""
    ordered = in_order(events, key, event_time)
    counters = counters.select(*key, NEXT_INDEX, DEADLINE)
    known = ordered.events.select(key)[ordered.starts].join(counters, on=key, how="left", maintain_order="left")
    lives = cut_lives(ordered, event_time, known[DEADLINE], expiry)
    ordered = lives.ordered
    first = np.where(lives.goes_on, known[NEXT_INDEX].fill_null(0).to_numpy()[lives.key_number], 0)
    index = np.arange(ordered.events.height) + (first - ordered.starts)[ordered.key_number]
    latest = lives.is_latest
    due = to_times(lives.last[latest]) + expiry.after if expiry is not None and expiry.in_event_time else None
    last = ordered.lasts[latest]
    counted = ordered.events.select(key)[last].with_columns(
        pl.Series(NEXT_INDEX, index[last] + 1), pl.lit(due, pl.Datetime("us", "UTC")).alias(DEADLINE)
    )
    return _Counted(
        ordered.events.with_columns(pl.Series(INDEX, index)),
        pl.concat([counters.join(counted, on=key, how="anti"), counted]),
    )


def number_in_windows(
    state: pl.DataFrame, events: pl.DataFrame, clock: Clock, event_time: str, key: tuple[str, ...], window: WindowShape
) -> Step:
    """The step with windows: every event is numbered in its window, waits, or is late as the window was over."""
    end = pl.col(WINDOW_START) + window.length
    # Over before these events came, not by the time to which they lead: how a run is cut plays no part.
    was_over = end <= clock.late_watermark
    numbered = number_events(state, events.filter(~was_over), clock, event_time, key)
    # An event is before its window's end, so that none waits any more of one that is over.
    counters = pl.col(NEXT_INDEX).is_not_null()
    kept = numbered.state.filter(~(counters & (end <= clock.watermark)))
    return Step(
        state=kept.with_columns(pl.when(counters).then(end).otherwise(DEADLINE).alias(DEADLINE)),
        output=numbered.output.with_columns(end.alias(WINDOW_END)),
        late=events.filter(was_over),
    )


def _windows_of(time: str, window: WindowShape | None) -> dict[str, Any]:
    """How events get the starts of their windows: each its one, or as many as it is in."""
    if window is None:
        return {}
    if not window.overlaps:
        return {"derived": {WINDOW_START: period_start(pl.col(time), window.length)}}
    return {"keys_of": KeysOf(WINDOW_START, period_starts(pl.col(time), window.length, window.every))}


def _window_start(time: str) -> pa.Field:
    return required(WINDOW_START, TIMESTAMP, "Start of the window (UTC)", made_of=(time,))


def _numbered(columns: pa.Schema, key: tuple[str, ...], time: str) -> pa.Schema:
    """The stream's columns, the window where there is one, and the number."""
    times: list[pa.Field] = []
    meaning = "Number of the event among those of its key, from 0"
    if WINDOW_START in key:
        end = "End of the window, which is not in it (UTC)"
        times = [
            _window_start(time),
            required(WINDOW_END, TIMESTAMP, end, made_of=(time,)),
        ]
        meaning = "Number of the event among those of its key in the window, from 0"
    made_of = dict.fromkeys([*(name for name in key if name != WINDOW_START), time])
    number = required(INDEX, pa.int64(), meaning, made_of=tuple(made_of))
    return pa.schema([*passed_on(columns), *times, number])


def _state(events: pa.Schema, key: tuple[str, ...], expiry: Timeout | None) -> pa.Schema:
    """A key's counter (with `next_index`), or an event that waits."""
    columns = [field if field.name in key else field.with_nullable(True) for field in events]
    state = pa.schema([*columns, pa.field(NEXT_INDEX, pa.int64()), pa.field(DEADLINE, TIMESTAMP)])
    return state if expiry is None else expiry.add_column(state)


def _find_stream(parameters: EventIndexParameters) -> Stream:
    """The stream of the parameters, seen to fit the key."""
    stream = STREAMS.get(parameters.stream)
    if stream is None:
        raise KeyfoldError(f"job event_index: no stream {parameters.stream!r}; streams there: {', '.join(STREAMS)}")
    where = f"job event_index: stream {stream.name}"
    possible = [field.name for field in stream.schema if not field.nullable and field.name != stream.event_time]
    unfit = [column for column in parameters.key if column not in possible or parameters.key.count(column) > 1]
    if unfit:
        raise KeyfoldError(
            f"{where} has no {', '.join(dict.fromkeys(unfit))} to number its events by; a key is of columns that every "
            f"event has, other than its time, each once: {', '.join(possible)}"
        )
    names = {INDEX, NEXT_INDEX, DEADLINE, STALE_AT} | ({WINDOW_START, WINDOW_END} if parameters.window else set())
    reserved = names & set(stream.schema.names)
    if reserved:
        raise KeyfoldError(f"{where} has a column {', '.join(sorted(reserved))}, a name that the job needs for itself")
    return stream
