"""Functions that make a `KeyedJob`: running totals, windows, sessions, top rows and last rows per key."""

from keyfold.operators.aggregation.aggregates import (
    Aggregate,
    between,
    count,
    distinct,
    divided,
    falls,
    first,
    greatest,
    last,
    least,
    mean,
    total,
)
from keyfold.operators.aggregation.chosen_rows import last_rows, top_rows
from keyfold.operators.aggregation.last_n import last_n
from keyfold.operators.aggregation.running import running
from keyfold.operators.aggregation.running_totals import totals
from keyfold.operators.aggregation.sessions import sessions
from keyfold.operators.aggregation.sessions_until import sessions_until
from keyfold.operators.aggregation.sessions_while import sessions_while
from keyfold.operators.aggregation.top_of_windows import top_of_windows
from keyfold.operators.aggregation.windows import TimeZone, windows

__all__ = [
    "Aggregate",
    "TimeZone",
    "between",
    "count",
    "distinct",
    "divided",
    "falls",
    "first",
    "greatest",
    "last",
    "last_n",
    "last_rows",
    "least",
    "mean",
    "running",
    "sessions",
    "sessions_until",
    "sessions_while",
    "top_of_windows",
    "top_rows",
    "total",
    "totals",
    "windows",
]
