"""Find cards that are used in two cities within ten minutes.

A pattern (`patterns`): a payment followed by one with the same card in another city. Every payment is matched with the first
such payment after it, so a copied card that pays between two payments of its owner is found twice.

Not every match is fraud: some cities are neighbours, and an online shop has its own city.
"""

from datetime import timedelta

import polars as pl

from keyfold import Duration, EventTimeParameters, KeyedJob, parameter, with_parameters
from keyfold.operators import Pattern, Then, pattern
from spark_jobs.streams import PAYMENTS


class CardInTwoCitiesParameters(EventTimeParameters):
    """Parameters of `card_in_two_cities`."""

    within: Duration = parameter(
        timedelta(minutes=10), description="From the one payment to the other at most", change="migrate"
    )


def build(parameters: CardInTwoCitiesParameters) -> KeyedJob:
    """Two payments with one card in different cities, ten minutes apart at most."""
    any_payment = pl.lit(value=True)
    elsewhere = Then(any_payment, where=pl.col("city") != pl.col("first_city"))
    return pattern(
        "card_in_two_cities",
        PAYMENTS,
        {"two_cities": Pattern({"first": any_payment, "last": elsewhere}, within=parameters.within)},
        key="card",
        keep=["city", "amount", "merchant", "payment_id"],
    )


CARD_IN_TWO_CITIES = with_parameters(build)
