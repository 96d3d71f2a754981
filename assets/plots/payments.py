"""Plot cards in two cities: matches per hour and per pair of cities; with labels, also the planted frauds."""

import json

import dagster as dg
import polars as pl

from keyfold import Lakehouse
from keyfold.dagster.plots import ALARM, MAIN, QUIET, draw, picture
from keyfold.lakehouse.reading import scan_table
from spark_jobs.simulation.fraud_score import is_true, score_fraud

_MATCHES = 20_000
_PAIRS = 12

LABELS = "labels/payments.json"
"""Optional file in the lakehouse directory with known frauds, {"frauds": [payment_id, …]}."""


def plot_two_cities(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Plot the last 20,000 matches by hour and by pair of cities; known planted frauds are red.

    The plot shows counts and cities, and no card numbers.
    """
    table = scan_table(lakehouse.table("card_in_two_cities")).drop("card")
    matches = table.top_k(_MATCHES, by="last_time").collect()
    if not matches.height:
        return {}
    planted = known_frauds(lakehouse)
    matches = matches.with_columns(
        is_planted=is_true(planted),
        # Both directions between two cities count as one pair.
        cities=pl.format(
            "{} and {}", pl.min_horizontal("first_city", "last_city"), pl.max_horizontal("first_city", "last_city")
        ),
    )
    figure, (hours, cities) = draw(2, width=10, height=3.4)
    parts = {
        "planted fraud": (matches.filter("is_planted"), ALARM),
        "else": (matches.filter(~pl.col("is_planted")), MAIN),
    }
    hours.hist(
        [part["last_time"].to_numpy() for part, _ in parts.values()],
        bins=48,
        stacked=True,
        color=[colour for _, colour in parts.values()],
        label=list(parts),
    )
    hours.tick_params(axis="x", rotation=30)
    pairs = matches.group_by("cities").agg(pl.len().alias("all"), pl.col("is_planted").sum().alias("planted"))
    pairs = pairs.top_k(_PAIRS, by=["all", "cities"]).sort("all", "cities")
    names = pairs["cities"].to_list()
    cities.barh(names, pairs["planted"].to_numpy(), color=ALARM)
    cities.barh(names, (pairs["all"] - pairs["planted"]).to_numpy(), left=pairs["planted"].to_numpy(), color=MAIN)
    cities.set_title("most frequent pairs of cities")
    title = f"the last {matches.height:,} cards in two cities"
    if planted:
        score = score_fraud(matches, planted)
        title = (
            f"{score.found:,} of {score.planted:,} planted found; {score.false:,} of {score.matches:,} matches false"
        )
        hours.legend(frameon=False, labelcolor=QUIET)
    hours.set_title(title)
    return {"two_cities": picture(figure, "Cards in two cities by time and by cities")}


def known_frauds(lakehouse: Lakehouse) -> frozenset[str]:
    """Return the `payment_id`s of known frauds; empty without labels."""
    labels = lakehouse.home / LABELS
    return frozenset(json.loads(labels.read_text(encoding="utf-8"))["frauds"] if labels.exists() else ())
