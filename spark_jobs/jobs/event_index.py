"""Number the events of each key: unique, from 0, without gaps.

State has one counter row per key, with the key's next number, and the waiting events (`running`). An event waits until the
watermark has passed it. Then the events of its key are numbered in order of event time, ties by all other columns. So a
replay, a restart, a full refresh or another split into micro-batches gives the same numbers. An event behind the watermark
gets the next free number of its key at once; only such a number depends on when its event arrived.

With `window`, numbers start at 0 for each key and window; an event of several windows is numbered once in each. A window's
counter is dropped when the watermark reaches the window's end; later events are late for this window. With `expire_after`, a
key without events for that long is dropped, and its next event starts at 0 again.
"""

from typing import Self

import polars as pl
import pyarrow as pa
from pydantic import Field, model_validator

from keyfold import Input, KeyedJob, KeyfoldError, Stream, required, with_parameters
from keyfold.columns import passed_on
from keyfold.keyed.job import DEADLINE, PROCESSING_DEADLINE, Names, Window
from keyfold.operators import count, running
from keyfold.operators.aggregation.running import WINDOW_END, WINDOW_START
from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.silence import ExpiringParameters
from spark_jobs.streams import STREAMS

INDEX = "event_index"
NEXT_INDEX = "next_index"


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
    stream = _find_stream(parameters)
    time = parameters.time_of(stream)
    columns = stream.schema_by(time)
    within = "its key" if parameters.window is None else "its key and window"
    times = (
        required(WINDOW_START, TIMESTAMP, "Start of the window (UTC)", lineage=(time,)),
        required(WINDOW_END, TIMESTAMP, "End of the window, exclusive (UTC)", lineage=(time,)),
    )
    number = required(
        INDEX,
        pa.int64(),
        f"Number of the event within {within}, from 0",
        lineage=list(dict.fromkeys([*parameters.key, time])),
    )
    return running(
        "event_index",
        Input(stream, at=time, columns=columns),
        {NEXT_INDEX: count()},
        key=parameters.key,
        output=pa.schema([*passed_on(columns), *(() if parameters.window is None else times), number]),
        then={INDEX: pl.col(NEXT_INDEX) - 1},
        expiry=parameters.expiry,
        window=parameters.window,
    )


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
    names = {INDEX, NEXT_INDEX, DEADLINE, PROCESSING_DEADLINE} | (
        {WINDOW_START, WINDOW_END} if parameters.window else set()
    )
    reserved = names & set(stream.schema.names)
    if reserved:
        raise KeyfoldError(f"{where} has a column {', '.join(sorted(reserved))}, a name that is reserved for the job")
    return stream


EVENT_INDEX = with_parameters(build)
