"""Event index: every event of a key gets a number: unique, without gaps, from 0, and never another one.

State is one counter row a key, which says the key's next number, and the events that wait. An event waits until the
watermark has passed it; then the events of its key are numbered in order of event time, ties by all other columns, so
that a replay, a restart, a full refresh or another split into micro-batches gives the same numbers. Rows that are the
same in every column are interchangeable.

Counters are never dropped, so no key ever closes and nothing is late: an event that comes behind the watermark takes
the next free number of its key at once. It is the one event whose number depends on when it came.
"""

from datetime import timedelta

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field

from spark_jobs.columns import column, passed_on
from spark_jobs.errors import KeyfoldError
from spark_jobs.jobs.ordering import in_order
from spark_jobs.jobs.parameters import Duration, JobParameters, Names
from spark_jobs.keyed.contract import DEADLINE, STALE_AT, Clock, JobTemplate, KeyedJob, Step
from spark_jobs.streams import STREAMS, Stream

INDEX = "event_index"
NEXT_INDEX = "next_index"


class EventIndexParameters(JobParameters):
    """Parameters of `event_index`."""

    stream: str = Field("ride_points", description=f"Whose events are numbered: {', '.join(STREAMS)}")
    key: Names = Field(
        ("ride_id",), description="Columns of the stream; events that agree in them are numbered together"
    )
    watermark_delay: Duration = Field(timedelta(minutes=10), description="How far out of order events may come")
    idle_after: Duration = Field(
        timedelta(hours=2), description="Processing time without new events after which runs advance event time"
    )


def build(parameters: EventIndexParameters) -> KeyedJob:
    """Make the job of its parameters.

    Raises:
        KeyfoldError: there is no such stream, or its events cannot be numbered by this key; says by which they can.
    """
    stream = _find_stream(parameters)

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        return number_events(state, events, clock, stream, parameters.key)

    return KeyedJob(
        name="event_index",
        stream=stream.name,
        key=parameters.key,
        event_time=stream.event_time,
        watermark_delay=parameters.watermark_delay,
        events=stream.schema,
        state=_state(stream, parameters.key),
        output=_numbered(stream, parameters.key),
        step=step,
        step_decides_late=True,
        idle_after=parameters.idle_after,
        key_groups=parameters.key_groups,
        state_events=pl.col(stream.event_time).count(),
        one_per_key=pl.col(NEXT_INDEX).is_not_null(),
        parameters=parameters.model_dump(mode="json"),
    )


EVENT_INDEX = JobTemplate(
    name="event_index",
    description="Every event with its number among those of its key: from 0, without gaps, in order of event time.",
    parameters=EventIndexParameters,
    build=build,
)


def number_events(
    state: pl.DataFrame, events: pl.DataFrame, clock: Clock, stream: Stream, key: tuple[str, ...]
) -> Step:
    """The step: see the module's text. Every event is numbered or waits."""
    waits = pl.col(NEXT_INDEX).is_null()
    counters = state.filter(~waits)
    came = pl.concat([state.filter(waits).select(stream.schema.names), events])
    is_due = pl.col(stream.event_time) <= clock.watermark
    waiting = came.filter(~is_due).with_columns(pl.col(stream.event_time).alias(DEADLINE))
    ordered = in_order(came.filter(is_due), key, stream.event_time)
    numbered_keys = ordered.events[ordered.starts].select(key)
    known = numbered_keys.join(counters.select(*key, NEXT_INDEX), on=key, how="left", maintain_order="left")
    first = known[NEXT_INDEX].fill_null(0).to_numpy()
    index = np.arange(ordered.events.height) + (first - ordered.starts)[ordered.key_number]
    counted = numbered_keys.with_columns(pl.Series(NEXT_INDEX, index[ordered.lasts] + 1))
    return Step(
        state=pl.concat([counters.join(counted, on=key, how="anti"), counted, waiting], how="diagonal"),
        output=ordered.events.with_columns(pl.Series(INDEX, index)),
    )


def _numbered(stream: Stream, key: tuple[str, ...]) -> pa.Schema:
    """The stream's columns, and the number."""
    meaning = "Number of the event among those of its key, from 0"
    number = column(INDEX, pa.int64(), meaning, made_of=(*key, stream.event_time), nullable=False)
    return pa.schema([*passed_on(stream.schema), number])


def _state(stream: Stream, key: tuple[str, ...]) -> pa.Schema:
    """A key's counter (with `next_index`), or an event that waits."""
    columns = [field if field.name in key else field.with_nullable(True) for field in stream.schema]
    time = stream.schema.field(stream.event_time).type
    return pa.schema([*columns, pa.field(NEXT_INDEX, pa.int64()), pa.field(DEADLINE, time)])


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
    reserved = {INDEX, NEXT_INDEX, DEADLINE, STALE_AT} & set(stream.schema.names)
    if reserved:
        raise KeyfoldError(f"{where} has a column {', '.join(sorted(reserved))}, a name that the job needs for itself")
    return stream
