"""Operators: each makes a whole job, from a stream, its key and what to compute.

| function | writes |
|---|---|
| `windows` | a row per window of event time, or the highest groups of each |
| `sessions` | a row per session: up to a silence, until an event, or while a condition holds |
| `running`, `last_n` | a row per event: aggregates of all events of the key up to it, or of its last n |
| `totals`, `rows` | the totals of each key, or its first row, its last, or its highest |
| `alert`, `pattern` | a row when a condition begins or ends, or for each match of a pattern |
| `buffer` | what a function makes of the events of a key, many at a time |
| `as_of_join`, `interval_join`, `lookup_join`, `window_join` | rows of two inputs that belong together |

Each says what becomes of late events and of silent keys, and what its state is. Common to all:

- **Order**: the events of a key are in order of event time. Simultaneous ones are in order of the columns that the job reads, in
  the stream's order, missing values first; those that are equal in all of them are interchangeable. So an answer does not depend
  on the order of arrival.
- A restart or a replay changes no row, and a batch boundary only where a docstring says so.
- On a stream that is silent as a whole, open rows close when `idle_timeout` lets event time go on.

A step of one's own keeps the same order with `keyfold.operators.steps`.

Their aggregates are the functions in lower case that take a value: `count`, `sum`, `mean`, `first`, …
"""

from keyfold.operators.aggregation.aggregates import (
    Aggregate,
    collect,
    count,
    count_distinct,
    distinct,
    divided,
    first,
    last,
    max,
    mean,
    min,
    over_pairs,
    quantile,
    sum,
    sum_of_decreases,
)
from keyfold.operators.aggregation.chosen_rows import rows
from keyfold.operators.aggregation.last_n import last_n
from keyfold.operators.aggregation.row_choice import First, Highest, Last
from keyfold.operators.aggregation.running_aggregates import running
from keyfold.operators.aggregation.running_totals import totals
from keyfold.operators.aggregation.session_ends import Until, While
from keyfold.operators.aggregation.sessions import sessions
from keyfold.operators.aggregation.top_groups import Top
from keyfold.operators.aggregation.window_shapes import WINDOW_END, WINDOW_START, Calendar, TimeZone
from keyfold.operators.aggregation.windows import Lateness, windows
from keyfold.operators.alerts import alert
from keyfold.operators.buffers import BATCH, buffer
from keyfold.operators.conditions import Held, Listed
from keyfold.operators.joins.as_of_join import as_of_join
from keyfold.operators.joins.interval_join import interval_join
from keyfold.operators.joins.lookup_join import lookup_join
from keyfold.operators.joins.window_join import window_join
from keyfold.operators.patterns.pattern import pattern
from keyfold.operators.patterns.vocabulary import Next, Pattern, Then, Without

__all__ = [
    "BATCH", "WINDOW_END", "WINDOW_START", "Aggregate", "Calendar", "First", "Held", "Highest", "Last", "Lateness",
    "Listed", "Next", "Pattern", "Then", "TimeZone", "Top", "Until", "While", "Without", "alert", "as_of_join",
    "buffer", "collect", "count", "count_distinct", "distinct", "divided", "first", "interval_join", "last", "last_n",
    "lookup_join", "max", "mean", "min", "over_pairs", "pattern", "quantile", "rows", "running", "sessions", "sum",
    "sum_of_decreases", "totals", "window_join", "windows",
]  # fmt: skip
