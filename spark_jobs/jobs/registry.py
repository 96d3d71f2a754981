"""The project's jobs, by name. Not in the package's `__init__`, so that a worker of one job does not import them all.

To add a job, add a file `<name>.py` to this folder, or a folder with a `job.py`, with a `KeyedJob` at its top level.
Nothing else is registered. A file that cannot be imported, or a name used twice, is an error that names the file.
"""

from keyfold import KeyedJob, declarations, import_modules
from spark_jobs import jobs

SHIPPED = (
    "ride_summaries",
    "moving_averages",
    "anomaly_predictions",
    "vehicle_trips",
    "fleet_days",
    "fleet_warnings",
    "top_products",
    "purchase_totals",
    "model_totals",
    "event_index",
    "ride_meter_jumps",
    "card_in_two_cities",
    "batched_enrichment",
    "ride_weather",
    "sales_with_products",
)
"""The jobs of the sample project, in the order of the documentation."""

JOBS: dict[str, KeyedJob] = declarations(
    import_modules(jobs.__name__, within="job", skip=frozenset({"registry"})), KeyedJob, first=SHIPPED
)
"""Every job by name: first those in `SHIPPED`, then the others by name."""
