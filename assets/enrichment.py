"""The enrichment group: ride points enriched by an external service, which its runs need."""

from keyfold.dagster.assets.keyed_asset import JobAssets
from spark_jobs.jobs.batched_enrichment.job import BATCHED_ENRICHMENT

GROUP = "enrichment"
OWNERS = ("team:rides",)
JOBS = [JobAssets(BATCHED_ENRICHMENT)]
