"""Pages about expectations of fares."""

from typing import Any

import polars as pl

from keyfold.dagster.quality.pages import ResultPages
from keyfold.dagster.quality.validation import validate
from keyfold.suite import Suite, critical

FARES = {
    "fare_is_not_negative": critical.between("fare", "Meters run forward.", min_value=0),
    "mean_fare": critical.mean_between("fare", "Rides are usual.", min_value=1, max_value=10),
}
WORDS = {
    "values": critical.in_set("fare", ["x"], "…"),
    "common": critical("expect_column_most_common_value_to_be_in_set", "…", column="fare", value_set=["x"]),
}


def add(
    pages: ResultPages, fares: list[Any], expectations: Suite = FARES, *, suite: str = "rides", run: str = "run"
) -> str:
    """The address of a page about these fares."""
    found = validate(pl.LazyFrame({"fare": fares}), expectations)
    return pages.add(suite, found.values(), scope="full", run=run)
