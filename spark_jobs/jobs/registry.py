"""The jobs, by name. Apart from the package, so that a worker of one job does not load them all."""

from spark_jobs.jobs.anomaly_predictions.job import ANOMALY_PREDICTIONS
from spark_jobs.jobs.batched_enrichment.job import BATCHED_ENRICHMENT
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTALS
from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
from spark_jobs.jobs.top_products import TOP_PRODUCTS
from spark_jobs.jobs.vehicle_trips.job import VEHICLE_TRIPS
from spark_jobs.keyed.contract import JobTemplate

JOBS: dict[str, JobTemplate] = {
    template.name: template
    for template in (
        RIDE_SUMMARIES,
        MOVING_AVERAGES,
        ANOMALY_PREDICTIONS,
        VEHICLE_TRIPS,
        TOP_PRODUCTS,
        PURCHASE_TOTALS,
        EVENT_INDEX,
        BATCHED_ENRICHMENT,
    )
}
