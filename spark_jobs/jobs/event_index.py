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

from keyfold import TIMESTAMP, Input, KeyedJob, Names, Window, required, with_parameters
from keyfold.operators import WINDOW_END, WINDOW_START, count, running
from spark_jobs.jobs.silence import ExpiringParameters
from spark_jobs.streams import STREAMS, find_stream

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
        KeyfoldError: the stream is unknown, or cannot have this key.
    """
    stream = find_stream("event_index", parameters.stream)
    time = parameters.time_of(stream)
    columns, where = stream.schema_by(time), "its key" if parameters.window is None else "its key and window"
    times = (
        required(WINDOW_START, TIMESTAMP, "Start of the window (UTC)"),
        required(WINDOW_END, TIMESTAMP, "End of the window, exclusive (UTC)"),
    )
    number = required(INDEX, pa.int64(), f"Number of the event within {where}, from 0", lineage=(*parameters.key, time))
    return running(
        "event_index",
        Input(stream, at=time, columns=columns),
        {NEXT_INDEX: count()},
        key=parameters.key,
        output=[*columns, *(() if parameters.window is None else times), number],
        then={INDEX: pl.col(NEXT_INDEX) - 1},
        expiry=parameters.expiry,
        window=parameters.window,
    )


EVENT_INDEX = with_parameters(build)
