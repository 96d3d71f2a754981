"""The joined group: rides with the weather at their start, and sales with their products.

Its jobs have a separate group, so that a missing table of products does not fail runs of the sales. Their automation condition
starts them when their inputs are updated.
"""

from keyfold import project_suites
from keyfold.dagster import JobAssets, keyfold_group
from spark_jobs.jobs.ride_weather.job import RIDE_WEATHER
from spark_jobs.jobs.sales_with_products import SALES_WITH_PRODUCTS

GROUP = keyfold_group(
    "joined",
    jobs=[
        JobAssets(RIDE_WEATHER, owners=("team:rides",)),
        JobAssets(SALES_WITH_PRODUCTS, owners=("team:sales",)),
    ],
    suites=project_suites(),
)
