"""The enrichment group: ride points enriched by an external service, which its runs need."""

from keyfold import project_suites
from keyfold.dagster import keyfold_group
from spark_jobs.jobs.batched_enrichment.job import BATCHED_ENRICHMENT

GROUP = keyfold_group(
    "enrichment",
    owners=("team:rides",),
    jobs=[BATCHED_ENRICHMENT],
    suites=project_suites(),
)
