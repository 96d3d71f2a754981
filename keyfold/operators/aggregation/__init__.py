"""Totals, windows, sessions, the highest and the last rows of a key: each is a function that makes a `KeyedJob`."""

from keyfold.operators.aggregation.aggregates import Aggregate, count, greatest, least, total
from keyfold.operators.aggregation.chosen_rows import last_rows, top_rows
from keyfold.operators.aggregation.running_totals import totals
from keyfold.operators.aggregation.sessions import sessions
from keyfold.operators.aggregation.windows import windows

__all__ = [
    "Aggregate",
    "count",
    "greatest",
    "last_rows",
    "least",
    "sessions",
    "top_rows",
    "total",
    "totals",
    "windows",
]
