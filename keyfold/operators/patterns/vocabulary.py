"""Define the three patterns over the events of a key.

Their exact meaning:

- **Order.** The events of a key are in order of event time. Events of the same time are ordered by the columns that the job
  reads, in the stream's order, missing values first. Rows that are equal in all of them are interchangeable. So order of
  arrival, files and batches do not matter. (Flink CEP: an `EventComparator`; SQL: an `ORDER BY` without ties.)
- **Every `a` begins its own match**, whatever other matches it is in, and has one answer at most. (Flink CEP:
  `AfterMatchSkipStrategy.noSkip()`; SQL's MATCH_RECOGNIZE: `AFTER MATCH SKIP TO NEXT ROW`.)
- **Other events in between are skipped.** (Flink CEP: `followedBy`, relaxed contiguity.) `next_only` changes that.
- **Times are inclusive**: an event exactly `within` after its `a` counts. (Flink CEP excludes it.) So for each `a`, exactly
  one of `FollowedBy` and `Without` with the same conditions and time matches.
- **A condition** is a Polars expression over the columns of one event, without `shift`, `sum` or `over`. NULL counts as false.
  In `where`, columns are those of `b`; columns of its `a` have the prefix `first_`.
- **When.** Events are searched when the watermark has passed them. `Without` is decided when the watermark reaches the end
  of its time: later events are late.
"""

from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from keyfold.errors import Misconfigured

FIRST, LAST = "first_", "last_"
"""Prefixes of columns of a match's first and last event."""


@dataclass(frozen=True)
class FollowedBy:
    """`a` followed by `b` within a time: matches every `a` with the first later `b` that fits it.

    Attributes:
        a: condition on the first event.
        b: condition on the second event, which is later in order; it may have the same time.
        within: longest time from `a` to `b`, inclusive.
        where: condition on both: columns of `b`, and those of `a` with the prefix `first_`.
        next_only: whether only the next event for which `b` holds is considered: if it does not fit, or is too late, this
            `a` has no match. With a `b` that always holds this is the next event (Flink CEP: `next`, strict contiguity).

    Raises:
        Misconfigured: `within` is not positive.

    Example:
        An order and its payment; and a gauge that falls by more than 5 from one reading to the next.

        >>> kind, level = pl.col("kind"), pl.col("level")
        >>> paid = FollowedBy(kind == "ordered", kind == "paid", within=timedelta(hours=1))
        >>> is_read = level.is_not_null()
        >>> leak = FollowedBy(
        ...     is_read, is_read, within=timedelta(minutes=5), where=pl.col("first_level") - level > 5, next_only=True
        ... )
    """

    a: pl.Expr
    b: pl.Expr
    within: timedelta
    where: pl.Expr | None = None
    next_only: bool = False

    def __post_init__(self) -> None:
        _require_time("FollowedBy: within", self.within)


@dataclass(frozen=True)
class Without:
    """`a` without `b` for a time: matches every `a` that is not followed by a `b` that fits it.

    Attributes:
        a: condition on the event.
        b: condition on the event that must not follow.
        for_: time after `a`, inclusive.
        where: condition on both, as in `FollowedBy`: only such a `b` counts.

    Raises:
        Misconfigured: `for_` is not positive.

    Example:
        An order that was not paid within an hour.

        >>> kind = pl.col("kind")
        >>> same_order = pl.col("order") == pl.col("first_order")
        >>> unpaid = Without(kind == "ordered", kind == "paid", for_=timedelta(hours=1), where=same_order)
    """

    a: pl.Expr
    b: pl.Expr
    for_: timedelta
    where: pl.Expr | None = None

    def __post_init__(self) -> None:
        _require_time("Without: for_", self.for_)

    @property
    def within(self) -> timedelta:
        """The longest time that an event waits for its answer: `for_`."""
        return self.for_


@dataclass(frozen=True)
class Times:
    """`n` times `a` within a time: matches every `a` with the next ones, if the last of the `n` is in time.

    Matches may overlap: of four events, `Times(3, …)` finds the first three and the last three.

    Attributes:
        n: number of events, at least two.
        a: condition on each of the events.
        within: longest time from the first to the last, inclusive.

    Raises:
        Misconfigured: `within` is not positive, or `n` is less than two.

    Example:
        Three failed logins within a minute.

        >>> guessing = Times(3, pl.col("outcome") == "failed", within=timedelta(minutes=1))
    """

    n: int
    a: pl.Expr
    within: timedelta

    def __post_init__(self) -> None:
        _require_time("Times: within", self.within)
        if self.n < 2:
            raise Misconfigured(f"Times: n is {self.n}; it must be 2 at least: a condition alone is a filter")


Pattern = FollowedBy | Without | Times


def conditions(pattern: Pattern) -> list[pl.Expr]:
    """Return the conditions of a pattern on single events."""
    return [pattern.a] if isinstance(pattern, Times) else [pattern.a, pattern.b]


def relation(pattern: Pattern) -> pl.Expr | None:
    """Return the condition of a pattern on two events; None if it has none."""
    return None if isinstance(pattern, Times) else pattern.where


def _require_time(where: str, value: timedelta) -> None:
    if value <= timedelta(0):
        raise Misconfigured(f"{where} is {value}; it must be more than nothing")
