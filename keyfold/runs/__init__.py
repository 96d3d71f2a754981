"""Run jobs and ingest: the use cases that the command line, the Dagster assets and `import keyfold` call.

A run of a job also sends its new rows to the topics of its tables. A continuous run maintains the tables that it writes, and
can serve its health and metrics.

The names below are imported when they are first used, as those of `keyfold.ingestion`.
"""

from typing import TYPE_CHECKING

from keyfold.lazy_names import lazy_names

if TYPE_CHECKING:
    from keyfold.runs.chains import consumers_of, promote_with_consumers, refresh_with_consumers
    from keyfold.runs.explaining.explain import explain
    from keyfold.runs.ingests import ingest, ingest_continuously
    from keyfold.runs.jobs import JobRun, run, run_continuously

__all__ = [
    "JobRun",
    "consumers_of",
    "explain",
    "ingest",
    "ingest_continuously",
    "promote_with_consumers",
    "refresh_with_consumers",
    "run",
    "run_continuously",
]

_MODULES = {
    "keyfold.runs.chains": ("consumers_of", "promote_with_consumers", "refresh_with_consumers"),
    "keyfold.runs.explaining.explain": ("explain",),
    "keyfold.runs.ingests": ("ingest", "ingest_continuously"),
    "keyfold.runs.jobs": ("JobRun", "run", "run_continuously"),
}
__getattr__ = lazy_names(globals(), _MODULES)
