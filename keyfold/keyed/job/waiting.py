"""Declare events that only wait in state, so that the step is not called for each of them."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from keyfold.keyed.job.clock import DEADLINE, STALE_AT, Clock


@dataclass(frozen=True)
class Waiting:
    """Declare which events are appended to state without a call of the step.

    Waiting rows are stored apart from a key's other rows, and are not read when an event is appended. An event can only wait
    if its key has exactly one row that does not wait. The step still gets all rows of a key: waiting rows are read when the key
    has an event that does not wait, or is due. Results must not change: let an event wait only where the step could have kept
    it unchanged.

    Attributes:
        rows: the rows of state that wait; a row with a timer never waits.
        events: a function of `(state, events, clock)` that returns a Boolean per event: whether it waits. `state` is aligned
            with the events and has the one row of each event's key that does not wait. It is not called for events behind the
            late watermark or for keys that are due. If one event of a key does not wait, none of its events does.
        kept_as: a function from events to the rows of state that represent them, in the same order; missing columns are NULL.

    Example:
        Clicks wait until the end of the user's visit, which is the deadline of the key's first row.

        >>> def before_the_end(state, events, clock):
        ...     return events["at"] < state[DEADLINE]
        >>> waiting = Waiting(pl.col(DEADLINE).is_null(), before_the_end, lambda events: events)
    """

    rows: pl.Expr
    events: Callable[[pl.DataFrame, pl.DataFrame, Clock], pl.Series]
    kept_as: Callable[[pl.DataFrame], pl.DataFrame]

    def apart(self, state: pl.DataFrame) -> pl.Series:
        """Return which rows of state are stored apart. A row with a timer is not, since its timer must find the key."""
        timers = [pl.col(name).is_null() for name in (DEADLINE, STALE_AT) if name in state.columns]
        return state.select(pl.all_horizontal(self.rows, *timers).fill_null(value=False)).to_series()
