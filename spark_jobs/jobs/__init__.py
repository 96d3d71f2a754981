"""The jobs, by name."""

from spark_jobs.errors import KeyfoldError
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.keyed.contract import JobTemplate

JOBS: dict[str, JobTemplate] = {template.name: template for template in (RIDE_SUMMARIES,)}


def find_job(name: str) -> JobTemplate:
    """The job of a name; raises KeyfoldError, listing those there are, when there is none."""
    if name not in JOBS:
        raise KeyfoldError(f"no job {name!r}; jobs there: {', '.join(JOBS)}")
    return JOBS[name]
