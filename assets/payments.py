"""The payments group: card payments, and cards used in two cities within a short time."""

from assets.plots.payments import plot_two_cities
from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from keyfold.dagster.assets.streams import stream_assets, stream_check
from spark_jobs.jobs.card_in_two_cities import CARD_IN_TWO_CITIES
from spark_jobs.streams import PAYMENTS

GROUP = "payments"
OWNERS = ("team:payments",)
STREAM = PAYMENTS
JOBS = (CARD_IN_TWO_CITIES,)

ASSETS = [
    *stream_assets(PAYMENTS, group=GROUP, owners=OWNERS),
    keyed_assets(CARD_IN_TWO_CITIES, group=GROUP, owners=OWNERS, plot=plot_two_cities, plot_of_counts=True),
]
CHECKS = [stream_check(PAYMENTS), *(conservation_check(job) for job in JOBS)]
