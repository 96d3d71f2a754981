"""The joined group: rides with the weather at their start, and sales with their products.

Its jobs have a separate group, so that a missing table of products does not fail runs of the sales. Their automation condition
starts them when their inputs are updated.
"""

from assets.plots.products import plot_categories
from assets.plots.weather import plot_ride_weather
from keyfold.dagster import JobAssets, keyfold_group
from keyfold.project import project_suites
from spark_jobs.jobs.ride_weather.job import RIDE_WEATHER
from spark_jobs.jobs.sales_with_products import SALES_WITH_PRODUCTS

GROUP = keyfold_group(
    "joined",
    jobs=[
        JobAssets(RIDE_WEATHER, owners=("team:rides",), plot=plot_ride_weather),
        JobAssets(SALES_WITH_PRODUCTS, owners=("team:sales",), plot=plot_categories),
    ],
    suites=project_suites(),
)
