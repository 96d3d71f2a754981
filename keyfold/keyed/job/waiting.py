"""Declare events that only wait in state, so that the step is not called for each of them."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from keyfold.keyed.job.clock import DEADLINE, STALE_AT, Clock


@dataclass(frozen=True)
class Waiting:
    """Events that only wait: rows of state that lie apart, and are not read for each event that is added to them.

    An event of a key that has one row besides those that wait may be kept as it came, without a call of the step. A step sees
    all rows of its keys, as ever: those that wait are read when the key has an event that does not, or is due. Results are the
    same with and without: let events wait only where the step would have kept them as they are, or might as well have.

    Attributes:
        rows: which rows of state wait; of these, one with a timer does not.
        events: `(state, events, clock)`, which events only wait, as truth values. `state` has, row by row beside the events,
            the one row of each event's key that does not wait. Events behind the late watermark and keys that are due are not
            asked about. If one event of a key does not wait, none of its events does.
        kept_as: the rows of state that events are kept as while they wait, row by row; columns left out are NULL.

    Example:
        Clicks wait until the user's visit has ended, which its first row says.

        >>> def before_the_end(state, events, clock):
        ...     return events["at"] < state[DEADLINE]
        >>> waiting = Waiting(pl.col(DEADLINE).is_null(), before_the_end, lambda events: events)
    """

    rows: pl.Expr
    events: Callable[[pl.DataFrame, pl.DataFrame, Clock], pl.Series]
    kept_as: Callable[[pl.DataFrame], pl.DataFrame]

    def apart(self, state: pl.DataFrame) -> pl.Series:
        """Which rows of state wait apart; one with a timer does not, since its key could not be found by it."""
        timers = [pl.col(name).is_null() for name in (DEADLINE, STALE_AT) if name in state.columns]
        return state.select(pl.all_horizontal(self.rows, *timers).fill_null(value=False)).to_series()
