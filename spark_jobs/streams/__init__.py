"""The streams: a module each, which is found by being here.

A new stream is a new file in this folder, `<name>.py`, whose `STREAM` is a `Stream` (`contract`). There is nothing else
to register. A file that cannot be imported, or a name that is taken, is an error that names the file.
"""

from keyfold import Rule, Source, Stream
from keyfold.discovery import declarations, import_modules
from keyfold.stream import INGESTED_AT, TIMESTAMP
from spark_jobs.streams.metrics import STREAM as METRICS
from spark_jobs.streams.payments import STREAM as PAYMENTS
from spark_jobs.streams.ride_points import STATUSES as RIDE_STATUSES
from spark_jobs.streams.ride_points import STREAM as RIDE_POINTS
from spark_jobs.streams.sales import STREAM as SALES
from spark_jobs.streams.telemetry import STREAM as TELEMETRY
from spark_jobs.streams.weather import STREAM as WEATHER

SHIPPED = ("ride_points", "weather", "metrics", "telemetry", "sales", "payments")
"""Names of the streams that come with Keyfold: the pages tell of these, and not of yours."""

STREAMS: dict[str, Stream] = declarations(import_modules(__name__), Stream, first=SHIPPED)
"""Every stream by its name: those that are shipped in the order of the pages, then yours by name."""

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
]
