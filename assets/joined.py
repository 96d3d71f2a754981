"""The joined group: rides with the weather at their start, and sales with their products.

Its jobs have a separate group, so that a missing table of products does not fail runs of the sales. Their automation condition
starts them when their inputs are updated.
"""

from assets.plots.products import plot_categories
from assets.plots.weather import plot_ride_weather
from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from spark_jobs.jobs.ride_weather.job import RIDE_WEATHER
from spark_jobs.jobs.sales_with_products import SALES_WITH_PRODUCTS

GROUP = "joined"
JOBS = (RIDE_WEATHER, SALES_WITH_PRODUCTS)

ASSETS = [
    keyed_assets(RIDE_WEATHER, group=GROUP, owners=("team:rides",), plot=plot_ride_weather),
    keyed_assets(SALES_WITH_PRODUCTS, group=GROUP, owners=("team:sales",), plot=plot_categories),
]
CHECKS = [conservation_check(job) for job in JOBS]
