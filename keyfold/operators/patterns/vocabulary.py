"""The vocabulary: three patterns over the events of a key.

What is meant, exactly:

- **Order.** The events of a key stand in order of event time. Those of one moment stand in the order of what they say: by
  the columns that the job reads, as the stream has them, missing values first. Rows that are the same in all of these
  are interchangeable. So order of arrival, files and batches play no part. (Flink CEP: an `EventComparator`; SQL: an
  `ORDER BY` without ties.)
- **Every `a` begins a match of its own**, whatever other matches it is in, and has one answer at most. (Flink CEP:
  `AfterMatchSkipStrategy.noSkip()`; SQL's MATCH_RECOGNIZE: `AFTER MATCH SKIP TO NEXT ROW`.)
- **Events between that fit nothing are passed over.** (Flink CEP: `followedBy`, relaxed contiguity.) `next_only`
  says otherwise.
- **Times are inclusive**: what lies exactly `within` after its `a` still counts. (Flink CEP leaves it out.) Of one `a`,
  `FollowedBy` and `Without` of the same conditions and time therefore say opposite things, and one of them holds.
- **A condition** is a Polars expression over one event's columns, of that row alone: no `shift`, `sum`, `over`. Where it
  is NULL it does not hold. In `where`, columns are those of `b`, and those of its `a` have `first_` before their names.
- **When.** Events are looked at once the watermark has passed them. `Without` is certain when the watermark reaches the
  end of its time: nothing that comes later may count.
"""

from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from keyfold.errors import Misconfigured

FIRST, LAST = "first_", "last_"
"""Before the names of columns of a match's first and last event."""


@dataclass(frozen=True)
class FollowedBy:
    """`a`, and then `b` within a time: every `a` with the first later `b` that fits it.

    Attributes:
        a: condition on the first event.
        b: condition on the second, which comes later in order; one of the same moment may.
        within: from `a` to `b` at most, this included.
        where: condition on the two: columns of `b`, and with `first_` those of `a`.
        next_only: whether only the next event for which `b` holds is looked at: if it does not fit, or comes too late,
            this `a` has no match. With a `b` that always holds this is the very next event (Flink CEP: `next`, strict
            contiguity).

    Raises:
        Misconfigured: `within` is no time.

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
    """`a`, and no `b` for a time: every `a` that no later `b` follows which fits it.

    Attributes:
        a: condition on the event.
        b: condition on what must not come.
        for_: for how long after `a`, this included.
        where: condition on the two, as of `FollowedBy`: only such a `b` counts.

    Raises:
        Misconfigured: `for_` is no time.

    Example:
        An order that was not paid within an hour, whatever else was.

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
        """How long an event may wait for its answer."""
        return self.for_


@dataclass(frozen=True)
class Times:
    """`a` so many times within a time: every `a` with those that follow it next, if the last of them comes in time.

    A longer row of them is found more than once: of four, `Times(3, …)` finds the first three and the last three.

    Attributes:
        n: how often; two at least.
        a: condition on each of the events.
        within: from the first to the last at most, this included.

    Raises:
        Misconfigured: `within` is no time, or `n` is less than two.

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
    """The conditions of a pattern on single events."""
    return [pattern.a] if isinstance(pattern, Times) else [pattern.a, pattern.b]


def relation(pattern: Pattern) -> pl.Expr | None:
    """The condition of a pattern on two events, where it has one."""
    return None if isinstance(pattern, Times) else pattern.where


def _require_time(where: str, value: timedelta) -> None:
    if value <= timedelta(0):
        raise Misconfigured(f"{where} is {value}; it must be more than nothing")
