"""The payments group: card payments, and cards used in two cities within a short time."""

from keyfold import project_suites
from keyfold.dagster import keyfold_group
from spark_jobs.jobs.card_in_two_cities import CARD_IN_TWO_CITIES
from spark_jobs.streams import PAYMENTS

GROUP = keyfold_group(
    "payments",
    owners=("team:payments",),
    streams=[PAYMENTS],
    jobs=[CARD_IN_TWO_CITIES],
    suites=project_suites(),
)
