"""Validity rules that several streams share."""

import polars as pl

from keyfold.stream.stream import Rule


def outside(column: str, low: float, high: float) -> pl.Expr:
    """Return an expression that is true for values outside of a closed range."""
    return ~pl.col(column).is_between(low, high)


def not_empty(column: str) -> Rule:
    """Return a rule that refuses empty and blank text."""
    return Rule(f"{column} is empty", pl.col(column).str.strip_chars() == "")


POSITION = (
    Rule("latitude is outside -90 to 90", outside("latitude", -90, 90)),
    Rule("longitude is outside -180 to 180", outside("longitude", -180, 180)),
)
"""Rules for the columns `latitude` and `longitude`, in degrees."""
