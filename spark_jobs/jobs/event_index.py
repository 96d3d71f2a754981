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
"""

from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field

from spark_jobs.columns import column, passed_on
from spark_jobs.errors import KeyfoldError
from spark_jobs.jobs.ordering import in_order
from spark_jobs.jobs.parameters import Delay, Duration, JobParameters, Names, Window, WindowShape
from spark_jobs.jobs.periods import period_start, period_starts
from spark_jobs.keyed.contract import DEADLINE, STALE_AT, Clock, JobTemplate, KeyedJob, Step
from spark_jobs.keyed.copies import KeysOf
from spark_jobs.streams import STREAMS, TIMESTAMP, Stream

INDEX = "event_index"
NEXT_INDEX = "next_index"
WINDOW_START, WINDOW_END = "window_start", "window_end"


class EventIndexParameters(JobParameters):
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
    watermark_delay: Delay = Field(timedelta(minutes=10), description="How far out of order events may come")
    idle_after: Duration = Field(
        timedelta(hours=2), description="Processing time without new events after which runs advance event time"
    )


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
            return number_events(state, events, clock, time, key)
        return number_in_windows(state, events, clock, time, key, window)

    return KeyedJob(
        name="event_index",
        stream=stream.name,
        key=key,
        **_windows_of(time, window),
        event_time=time,
        watermark_delay=parameters.watermark_delay,
        events=events,
        state=_state(events, key),
        output=_numbered(columns, key, time),
        step=step,
        step_decides_late=True,
        idle_after=parameters.idle_after,
        key_groups=parameters.key_groups,
        state_events=pl.col(time).count(),
        one_per_key=pl.col(NEXT_INDEX).is_not_null(),
        # A window that is not asked for is not told: generations that were born before there were any go on.
        parameters=parameters.model_dump(mode="json", exclude={"window"} if window is None else None),
    )


EVENT_INDEX = JobTemplate(
    name="event_index",
    description="Every event with its number among those of its key: from 0, without gaps, in order of event time.",
    parameters=EventIndexParameters,
    build=build,
)


def number_events(
    state: pl.DataFrame, events: pl.DataFrame, clock: Clock, event_time: str, key: tuple[str, ...]
) -> Step:
    """The step without windows: see the module's text. Every event is numbered or waits."""
    waits = pl.col(NEXT_INDEX).is_null()
    counters = state.filter(~waits)
    came = pl.concat([state.filter(waits).select(events.columns), events])
    is_due = pl.col(event_time) <= clock.watermark
    waiting = came.filter(~is_due).with_columns(pl.col(event_time).alias(DEADLINE))
    ordered = in_order(came.filter(is_due), key, event_time)
    numbered_keys = ordered.events[ordered.starts].select(key)
    known = numbered_keys.join(counters.select(*key, NEXT_INDEX), on=key, how="left", maintain_order="left")
    first = known[NEXT_INDEX].fill_null(0).to_numpy()
    index = np.arange(ordered.events.height) + (first - ordered.starts)[ordered.key_number]
    counted = numbered_keys.with_columns(pl.Series(NEXT_INDEX, index[ordered.lasts] + 1))
    return Step(
        state=pl.concat([counters.join(counted, on=key, how="anti"), counted, waiting], how="diagonal"),
        output=ordered.events.with_columns(pl.Series(INDEX, index)),
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
    return column(WINDOW_START, TIMESTAMP, "Start of the window (UTC)", made_of=(time,), nullable=False)


def _numbered(columns: pa.Schema, key: tuple[str, ...], time: str) -> pa.Schema:
    """The stream's columns, the window where there is one, and the number."""
    times: list[pa.Field] = []
    meaning = "Number of the event among those of its key, from 0"
    if WINDOW_START in key:
        end = "End of the window, which is not in it (UTC)"
        times = [
            _window_start(time),
            column(WINDOW_END, TIMESTAMP, end, made_of=(time,), nullable=False),
        ]
        meaning = "Number of the event among those of its key in the window, from 0"
    made_of = dict.fromkeys([*(name for name in key if name != WINDOW_START), time])
    number = column(INDEX, pa.int64(), meaning, made_of=tuple(made_of), nullable=False)
    return pa.schema([*passed_on(columns), *times, number])


def _state(events: pa.Schema, key: tuple[str, ...]) -> pa.Schema:
    """A key's counter (with `next_index`), or an event that waits."""
    columns = [field if field.name in key else field.with_nullable(True) for field in events]
    return pa.schema([*columns, pa.field(NEXT_INDEX, pa.int64()), pa.field(DEADLINE, TIMESTAMP)])


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
