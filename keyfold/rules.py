"""Rules that more than one stream has."""

import polars as pl

from keyfold.stream import Rule


def outside(column: str, low: float, high: float) -> pl.Expr:
    """True where a value does not lie between two others."""
    return ~pl.col(column).is_between(low, high)


def not_empty(column: str) -> Rule:
    """A text must hold more than blanks."""
    return Rule(f"{column} is empty", pl.col(column).str.strip_chars() == "")


POSITION = (
    Rule("latitude is outside -90 to 90", outside("latitude", -90, 90)),
    Rule("longitude is outside -180 to 180", outside("longitude", -180, 180)),
)
"""Of `latitude` and `longitude`, in degrees."""
