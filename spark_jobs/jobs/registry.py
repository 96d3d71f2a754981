"""The jobs, by name. Apart from the package, so that a worker of one job does not load them all.

A new job is a new file in this folder, `<name>.py`, or a folder with a `job.py`, that has a `JobTemplate` at its top
level, under whatever name. There is nothing else to register. A file that cannot be imported, or a name that is taken,
is an error that names the file.
"""

from keyfold import JobTemplate
from keyfold.discovery import declarations, import_modules
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
"""Names of the jobs that come with Keyfold: the pages tell of these, and not of yours."""

JOBS: dict[str, JobTemplate] = declarations(
    import_modules(jobs.__name__, within="job", skip=frozenset({"registry"})), JobTemplate, first=SHIPPED
)
"""Every job by its name: those that are shipped in the order of the pages, then yours by name."""
