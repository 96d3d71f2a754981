"""Number the events of each key: unique, from 0, without gaps.

State has one counter row per key, with the key's next number, and the waiting events. An event waits until the watermark has
passed it. Then the events of its key are numbered in order of event time, ties by all other columns. So a replay, a restart, a
full refresh or another split into micro-batches gives the same numbers. Rows that are equal in every column are
interchangeable.

Counters are never dropped, so no key closes and no event is late: an event behind the watermark gets the next free number of
its key at once. Only such an event's number depends on when it arrived.

With `window`, numbers start at 0 for each key and window: the key is the given key and the window's start. If windows overlap,
an event is copied and numbered once per window. A window's counter is dropped when the watermark reaches the window's end;
later events are late for this window.

With `expire_after`, a key without events for that long is dropped, and its next event starts at 0 again. In event time, the
silence is between two events, so results do not depend on batch boundaries. With `timeout_in=processing_time`, it is measured
from the run that brought the key's last event; the key's waiting events are numbered first (`keyed.timeouts`).
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
from keyfold.stream import TIMESTAMP
from keyfold.times import period_start, period_starts, to_times
from spark_jobs.jobs.silence import ExpiringParameters, cut_lifetimes
from spark_jobs.streams import STREAMS

INDEX = "event_index"
NEXT_INDEX = "next_index"
WINDOW_START, WINDOW_END = "window_start", "window_end"


class EventIndexParameters(ExpiringParameters):
    """Parameters of `event_index`."""

    stream: str = Field("ride_points", description=f"Stream whose events are numbered: {', '.join(STREAMS)}")
    key: Names = Field(("ride_id",), description="Key columns; events with equal values are numbered together")
    window: Window | None = Field(
        None,
        description="Window in which numbers start at 0, aligned to 1970 UTC: 1h, or 1h every 15m, where each event is "
        "numbered in four windows. None: no windows",
    )

    @model_validator(mode="after")
    def _windows_end_by_themselves(self) -> Self:
        if self.window is not None and self.expire_after is not None:
            raise ValueError("give either window or expire_after, not both: a window's numbers end with the window")
        return self


def build(parameters: EventIndexParameters) -> KeyedJob:
    """Every event with its number among those of its key: from 0, without gaps, in order of event time.

    Raises:
        KeyfoldError: the stream is unknown, or cannot have this key; the message lists possible key columns.
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


EVENT_INDEX = JobTemplate("event_index", EventIndexParameters, build)


def number_events(
    state: pl.DataFrame,
    events: pl.DataFrame,
    clock: Clock,
    event_time: str,
    key: tuple[str, ...],
    expiry: Timeout | None = None,
) -> Step:
    """Run the step without windows: every event is numbered, or waits."""
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
    """Numbered events, and all counters after that."""

    output: pl.DataFrame
    counters: pl.DataFrame


def _count(
    counters: pl.DataFrame, events: pl.DataFrame, event_time: str, key: tuple[str, ...], expiry: Timeout | None
) -> _Counted:
    """Number events from their keys' counters on, or from 0 if the key has expired."""
    ordered = in_order(events, key, event_time)
    counters = counters.select(*key, NEXT_INDEX, DEADLINE)
    known = ordered.events.select(key)[ordered.starts].join(counters, on=key, how="left", maintain_order="left")
    lifetimes = cut_lifetimes(ordered, event_time, known[DEADLINE], expiry)
    ordered = lifetimes.ordered
    # A lifetime that continues the key's state continues its numbers; any other begins at 0.
    first = np.where(lifetimes.goes_on, known[NEXT_INDEX].fill_null(0).to_numpy()[lifetimes.key_number], 0)
    index = np.arange(ordered.events.height) + (first - ordered.starts)[ordered.key_number]
    latest = lifetimes.is_latest
    due = to_times(lifetimes.last[latest]) + expiry.after if expiry is not None and expiry.in_event_time else None
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
    """Run the step with windows: every event is numbered in its window, waits, or is late for a closed window."""
    end = pl.col(WINDOW_START) + window.length
    # Decided by the watermark before these events, so that results do not depend on batch boundaries.
    was_over = end <= clock.late_watermark
    numbered = number_events(state, events.filter(~was_over), clock, event_time, key)
    # An event is before its window's end, so a closed window has no waiting events.
    counters = pl.col(NEXT_INDEX).is_not_null()
    kept = numbered.state.filter(~(counters & (end <= clock.watermark)))
    return Step(
        state=kept.with_columns(pl.when(counters).then(end).otherwise(DEADLINE).alias(DEADLINE)),
        output=numbered.output.with_columns(end.alias(WINDOW_END)),
        late=events.filter(was_over),
    )


def _windows_of(time: str, window: WindowShape | None) -> dict[str, Any]:
    """Return how events get the start of their window, or of each of their windows."""
    if window is None:
        return {}
    if not window.overlaps:
        return {"derived": {WINDOW_START: period_start(pl.col(time), window.length)}}
    return {"keys_of": KeysOf(WINDOW_START, period_starts(pl.col(time), window.length, window.every))}


def _window_start(time: str) -> pa.Field:
    return required(WINDOW_START, TIMESTAMP, "Start of the window (UTC)", made_of=(time,))


def _numbered(columns: pa.Schema, key: tuple[str, ...], time: str) -> pa.Schema:
    """Return the stream's columns, the window's columns if any, and the number."""
    times: list[pa.Field] = []
    meaning = "Number of the event within its key, from 0"
    if WINDOW_START in key:
        end = "End of the window, exclusive (UTC)"
        times = [
            _window_start(time),
            required(WINDOW_END, TIMESTAMP, end, made_of=(time,)),
        ]
        meaning = "Number of the event within its key and window, from 0"
    made_of = dict.fromkeys([*(name for name in key if name != WINDOW_START), time])
    number = required(INDEX, pa.int64(), meaning, made_of=tuple(made_of))
    return pa.schema([*passed_on(columns), *times, number])


def _state(events: pa.Schema, key: tuple[str, ...], expiry: Timeout | None) -> pa.Schema:
    """Return the state's schema: a key's counter (with `next_index`), or a waiting event."""
    columns = [field if field.name in key else field.with_nullable(True) for field in events]
    state = pa.schema([*columns, pa.field(NEXT_INDEX, pa.int64()), pa.field(DEADLINE, TIMESTAMP)])
    return state if expiry is None else expiry.add_column(state)


def _find_stream(parameters: EventIndexParameters) -> Stream:
    """Return the stream of the parameters, checked to fit the key."""
    stream = STREAMS.get(parameters.stream)
    if stream is None:
        raise KeyfoldError(f"job event_index: no stream {parameters.stream!r}; known streams: {', '.join(STREAMS)}")
    where = f"job event_index: stream {stream.name}"
    possible = [field.name for field in stream.schema if not field.nullable and field.name != stream.event_time]
    unfit = [column for column in parameters.key if column not in possible or parameters.key.count(column) > 1]
    if unfit:
        raise KeyfoldError(
            f"{where} cannot have the key column {', '.join(dict.fromkeys(unfit))}; a key column may not be NULL, given "
            f"twice, or the event time; possible are {', '.join(possible)}"
        )
    names = {INDEX, NEXT_INDEX, DEADLINE, STALE_AT} | ({WINDOW_START, WINDOW_END} if parameters.window else set())
    reserved = names & set(stream.schema.names)
    if reserved:
        raise KeyfoldError(f"{where} has a column {', '.join(sorted(reserved))}, a name that is reserved for the job")
    return stream
