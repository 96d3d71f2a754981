"""Plot cards in two cities: matches per hour and per pair of cities."""

import dagster as dg
import polars as pl

from keyfold import Lakehouse
from keyfold.dagster.plots import MAIN, draw, picture
from keyfold.lakehouse.reading import scan_table

_MATCHES = 20_000
_PAIRS = 12


def plot_two_cities(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Plot the last 20,000 matches by hour and by pair of cities: counts and cities, and no card numbers."""
    table = scan_table(lakehouse.table("card_in_two_cities")).select("last_time", "first_city", "last_city")
    matches = table.top_k(_MATCHES, by="last_time").collect(engine="streaming")
    if not matches.height:
        return {}
    # Both directions between two cities count as one pair.
    pair = pl.format(
        "{} and {}", pl.min_horizontal("first_city", "last_city"), pl.max_horizontal("first_city", "last_city")
    )
    figure, (hours, cities) = draw(2, width=10, height=3.4)
    hours.hist(matches["last_time"].to_numpy(), bins=48, color=MAIN)
    hours.tick_params(axis="x", rotation=30)
    hours.set_title(f"the last {matches.height:,} cards in two cities")
    pairs = matches.group_by(cities=pair).len("all").top_k(_PAIRS, by=["all", "cities"]).sort("all", "cities")
    cities.barh(pairs["cities"].to_list(), pairs["all"].to_numpy(), color=MAIN)
    cities.set_title("most frequent pairs of cities")
    return {"two_cities": picture(figure, "Cards in two cities by time and by cities")}
