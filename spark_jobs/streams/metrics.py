"""The metrics stream: values of any number of series."""

import pyarrow as pa

from keyfold import TIMESTAMP, Source, Stream, not_empty, required

STREAM = Stream(
    name="metrics",
    description="Valid values of metrics, each once: typed, checked, de-duplicated by series, time and value.",
    schema=pa.schema(
        [
            required(
                "key",
                pa.string(),
                "Series: the column `key`, or the file's path below the landing folder without its endings",
            ),
            required("timestamp", TIMESTAMP, "Event time: when the value was measured (UTC)"),
            required("value", pa.float64(), "The value", unit="in the series' own unit"),
        ]
    ),
    event_time="timestamp",
    sources={"key": Source(("key",), path=True)},
    # The value is part of the id, since an hour is measured twice when clocks are set back in autumn.
    event_id=("key", "timestamp", "value"),
    rules=(not_empty("key"),),
)
