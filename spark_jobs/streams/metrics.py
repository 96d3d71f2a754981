"""Metrics: values of any number of series."""

import pyarrow as pa

from spark_jobs.streams.contract import TIMESTAMP, Source, Stream
from spark_jobs.streams.rules import not_empty

STREAM = Stream(
    name="metrics",
    schema=pa.schema(
        [
            pa.field("key", pa.string(), nullable=False),
            pa.field("timestamp", TIMESTAMP, nullable=False),
            pa.field("value", pa.float64(), nullable=False),
        ]
    ),
    event_time="timestamp",
    sources={"key": Source(("key",), path=True)},
    # The value too: clocks that are set back in autumn measure an hour twice.
    event_id=("key", "timestamp", "value"),
    rules=(not_empty("key"),),
)
