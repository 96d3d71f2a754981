"""The project's streams, one module each.

To add a stream, add a file `<name>.py` to this folder whose `STREAM` is a `Stream`. Nothing else is registered. A file that
cannot be imported, or a name used twice, is an error that names the file.
"""

from keyfold import INGESTED_AT, TIMESTAMP, KeyfoldError, Rule, Source, Stream, declarations, import_modules
from spark_jobs.streams.metrics import STREAM as METRICS
from spark_jobs.streams.payments import STREAM as PAYMENTS
from spark_jobs.streams.ride_points import STATUSES as RIDE_STATUSES
from spark_jobs.streams.ride_points import STREAM as RIDE_POINTS
from spark_jobs.streams.sales import STREAM as SALES
from spark_jobs.streams.telemetry import STREAM as TELEMETRY
from spark_jobs.streams.weather import STREAM as WEATHER

SHIPPED = ("ride_points", "weather", "metrics", "telemetry", "sales", "payments")
"""The streams of the sample project, in the order of the documentation."""

STREAMS: dict[str, Stream] = declarations(import_modules(__name__), Stream, first=SHIPPED)
"""Every stream by name: first those in `SHIPPED`, then the others by name."""


def find_stream(job: str, name: str) -> Stream:
    """Find the stream that a job's parameter names.

    Raises:
        KeyfoldError: there is none of this name; the message lists the streams.
    """
    if name not in STREAMS:
        raise KeyfoldError(f"job {job}: no stream {name!r}; parameter stream takes one of {', '.join(STREAMS)}")
    return STREAMS[name]


__all__ = [
    "INGESTED_AT",
    "METRICS",
    "PAYMENTS",
    "RIDE_POINTS",
    "RIDE_STATUSES",
    "SALES",
    "SHIPPED",
    "STREAMS",
    "TELEMETRY",
    "TIMESTAMP",
    "WEATHER",
    "Rule",
    "Source",
    "Stream",
    "find_stream",
]
