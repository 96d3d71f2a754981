"""The enrichment group: ride points enriched by an external service, which its runs need."""

from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from spark_jobs.jobs.batched_enrichment.job import BATCHED_ENRICHMENT

GROUP = "enrichment"
OWNERS = ("team:rides",)
JOBS = (BATCHED_ENRICHMENT,)

ASSETS = [
    keyed_assets(BATCHED_ENRICHMENT, group=GROUP, owners=OWNERS),
]
CHECKS = [conservation_check(BATCHED_ENRICHMENT)]
