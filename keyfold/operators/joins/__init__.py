"""Join inputs by key: each function makes a `KeyedJob`, whose state is bounded and is freed by the watermark."""

from keyfold.operators.joins.as_of_join import as_of_join
from keyfold.operators.joins.interval_join import interval_join, unbounded_join
from keyfold.operators.joins.lookup_join import lookup_join
from keyfold.operators.joins.window_join import window_join

__all__ = ["as_of_join", "interval_join", "lookup_join", "unbounded_join", "window_join"]
