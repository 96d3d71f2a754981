"""Define patterns over the events of a key: steps that follow each other within a time.

Their exact meaning:

- **Order.** The events of a key are in order of event time. Events of the same time are ordered by the columns that the job
  reads, in the stream's order, missing values first. Rows that are equal in all of them are interchangeable. So order of
  arrival, files and batches do not matter. (Flink CEP: an `EventComparator`; SQL: an `ORDER BY` without ties.)
- **Every event that fits the first step begins its own match**, whatever other matches it is in, and has one at most. (Flink CEP:
  `AfterMatchSkipStrategy.noSkip()`; SQL's MATCH_RECOGNIZE: `AFTER MATCH SKIP TO NEXT ROW`.)
- **Each step takes the first later event that fits it**, and stays with it: other events in between are skipped. (Flink CEP:
  `followedBy`, relaxed contiguity. MATCH_RECOGNIZE would try another event where a later step does not fit. Not here: a match has
  one row of state, whatever its number of steps, and what has been found is never taken back.)
- **Times are inclusive**: an event exactly `within` after the first counts. (Flink CEP excludes it.) So of two patterns
  whose last steps are `Then` and `Without` of the same, each match of their other steps is in exactly one.
- **A condition** is a Polars expression over the columns of one event, without `shift`, `sum` or `over`. NULL counts as false.
- **When.** Events are searched when the watermark has passed them. `Without` is decided when the watermark reaches the end of
  the time: later events are late.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property

import polars as pl

from keyfold.keyed.job.operator_call import KEEPS_ORDER
from keyfold.times import to_silence
from keyfold.validation import argument, declaration


@declaration("a step")
class Then:
    """A step of a pattern: the first later event that fits.

    Attributes:
        condition: condition on the event.
        where: condition on it and those of earlier steps, whose columns have the step's name as prefix: `paid_amount`, and
            `paid_time` for its event time.
    """

    condition: pl.Expr
    where: pl.Expr | None = None


class Next(Then):
    """A step that only considers the next event for which `condition` holds: if it is too late or not as in `where`, there is no match.

    With a condition that always holds, this is the next event (Flink CEP: `next`, strict contiguity).
    """


class Without(Then):
    """A last step: no such event comes until the time is over (Flink CEP: `notFollowedBy` at the end of a pattern)."""


@declaration("pattern")
class Pattern:
    """Steps that follow each other within a time.

    Attributes:
        steps: the steps in order, by name: the condition of the first, then `Then`, `Next`, and `Without` as the last. A condition
            alone stands for `Then`.
        within: longest time from the first to the last event, inclusive.

    Raises:
        Misconfigured: `within` is no time, or not positive; there are less than two steps; the first is none; or `Without` is
            not the last.

    Example:
        An order that was paid and not shipped within two days; three failed logins within a minute; and a gauge that falls by
        more than 5 from one reading to the next.

        >>> kind, same_order = pl.col("kind"), pl.col("order") == pl.col("ordered_order")
        >>> waiting = Pattern(
        ...     {
        ...         "ordered": kind == "ordered",
        ...         "paid": Then(kind == "paid", where=same_order),
        ...         "shipped": Without(kind == "shipped", where=same_order),
        ...     },
        ...     within="2d",
        ... )
        >>> guessing = Pattern({f"try_{n}": pl.col("outcome") == "failed" for n in (1, 2, 3)}, within="1m")
        >>> level, is_read = pl.col("level"), pl.col("level").is_not_null()
        >>> leak = Pattern({"one": is_read, "next": Next(is_read, where=pl.col("one_level") - level > 5)}, within="5m")
    """

    steps: Mapping[str, pl.Expr | Then | Next | Without] = argument(metadata={KEEPS_ORDER: True})
    within: timedelta = argument(converter=to_silence)

    def __post_init__(self) -> None:
        then = self.then
        if len(then) < 2:
            raise ValueError(
                f"it has {len(then)}, and needs at least 2 steps: for one condition, use `where` of the stream"
            )
        first, *others = then
        if type(then[first]) is not Then or then[first].where is not None:
            raise ValueError(f"the first step must be a plain condition and not {first}, since no step is before it")
        if early := [name for name in others[:-1] if isinstance(then[name], Without)]:
            raise ValueError(f"{early[0]} is a Without, which must be the last step")

    @cached_property
    def then(self) -> Mapping[str, Then]:
        """The steps, of which conditions alone are `Then`."""
        return {name: step if isinstance(step, Then) else Then(step) for name, step in self.steps.items()}

    @property
    def events(self) -> list[str]:
        """The steps that have an event in a match: all but `Without`."""
        return [name for name, step in self.then.items() if not isinstance(step, Without)]
