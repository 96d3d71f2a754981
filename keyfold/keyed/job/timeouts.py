"""A timeout, in either time: event time, which the stream's own events tell, or processing time, which the runs do.

In event time a key is silent between two of its events, and their times say how long: a job sees it where it puts them in
order, and sets a `deadline` for the last. In processing time it is silent from the batch that brought its last event on, and
no event says so: `part` finds the keys that had been silent for too long before a batch's events came, and `renew` sets
`stale_at` for those that it has heard of. So in processing time

- **a key closes before what comes after.** A run that finds a key's timeout past and an event of it besides closes the key
  first, and the event begins it anew, just as if a run had looked in between: how often one looks changes no row.
- **a key leaves whole.** What waits of it for the watermark is worked off first, in order of event time.
- **what comes then is not late.** It is late if it lies behind the watermark, like any other event, and else begins anew. So
  the step of such a job decides what is late (`KeyedJob.step_decides_late`).
- **a run is one moment.** All that a run reads came when the run was planned: history that is read at once has no silence
  in it, and closes only when it is followed by some. A batch that is worked on again has its moment again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.job.clock import DEADLINE, STALE_AT, Clock
from keyfold.times import shifted

TimeKind = Literal["event_time", "processing_time"]

_TIME = pl.Datetime("us", "UTC")


class Parted(NamedTuple):
    """State, parted.

    Attributes:
        over: all rows of keys that had been silent for too long before the batch.
        going_on: all rows of the others.
    """

    over: pl.DataFrame
    going_on: pl.DataFrame


@dataclass(frozen=True)
class Timeout:
    """How long a key may be silent, and in which time that is counted.

    Attributes:
        after: so long.
        in_: `event_time`, or `processing_time`.

    Example:
        The clicks of each user until nothing came of the user for half a minute of processing time.

        >>> from datetime import UTC
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> silence = Timeout(timedelta(seconds=30), "processing_time")
        >>> silence.add_column(pa.schema([user, ("clicks", pa.int64())])).names
        ['user', 'clicks', 'stale_at']
        >>> def count(state, events, clock):
        ...     over, going_on = silence.part(state, ["user"], clock)
        ...     came = events.group_by("user").agg(clicks=pl.len().cast(pl.Int64))
        ...     counts = pl.concat([going_on.drop(STALE_AT), came]).group_by("user").agg(pl.col("clicks").sum())
        ...     return silence.renew(counts, going_on, events, ["user"], clock), over.drop(STALE_AT)
        >>> kept = pl.DataFrame(schema={"user": pl.String, "clicks": pl.Int64, STALE_AT: pl.Datetime("us", "UTC")})
        >>> for seconds, users in ((0, ["ann", "bob"]), (20, ["ann"]), (45, ["bob"])):
        ...     now = datetime(2026, 1, 31, 12, 0, seconds, tzinfo=UTC)
        ...     kept, told = count(kept, pl.DataFrame({"user": users}), Clock(now, now, now))
        >>> told.rows(), sorted(kept.select("user", "clicks").rows())
        ([('bob', 1)], [('ann', 2), ('bob', 1)])
    """

    after: timedelta
    in_: TimeKind = "event_time"

    def __post_init__(self) -> None:
        if self.after <= timedelta(0):
            raise Misconfigured(f"a timeout is longer than nothing; it is {self.after}")
        if self.in_ not in ("event_time", "processing_time"):
            raise Misconfigured(f"a timeout is in event_time or processing_time, and not in {self.in_!r}")

    @property
    def in_event_time(self) -> bool:
        """Whether it is counted in event time."""
        return self.in_ == "event_time"

    @property
    def column(self) -> str:
        """The column of state that says when a row is due: `deadline`, or `stale_at`."""
        return DEADLINE if self.in_event_time else STALE_AT

    def add_column(self, state: pa.Schema) -> pa.Schema:
        """A schema of state with the column that the timeout needs, at the end where it is new."""
        return (
            state if self.column in state.names else state.append(pa.field(self.column, pa.timestamp("us", tz="UTC")))
        )

    def now(self, clock: Clock) -> datetime:
        """How far the time has come that it is counted in."""
        return clock.watermark if self.in_event_time else clock.processing_time

    def due_at(self, event_time: pl.Expr, clock: Clock) -> pl.Expr:
        """When a key is due that the batch has heard of, in an event of this time."""
        if self.in_event_time:
            return event_time + self.after
        return pl.lit(shifted(clock.processing_time, self.after), _TIME)

    def is_due(self, clock: Clock) -> pl.Expr:
        """Whether a row of state is due; one without a time is not."""
        return (pl.col(self.column) <= self.now(clock)).fill_null(value=False)

    def part(self, state: pl.DataFrame, key: Sequence[str], clock: Clock) -> Parted:
        """Part the keys that were silent for too long before the batch's events came; in event time there are none.

        What is due in event time closes in the batch that leads there, with its events counted; of what is due in
        processing time it is certain before any of them came.
        """
        if self.in_event_time or not state.select(self.is_due(clock).any()).item():
            return Parted(state.clear(), state)
        # The last of a key's rows counts: rows that were seeded, or mended by hand, may differ.
        latest = pl.col(STALE_AT).max().over(key)
        is_over = (latest <= clock.processing_time).fill_null(value=False)
        return Parted(state.filter(is_over), state.filter(~is_over))

    def renew(
        self, state: pl.DataFrame, before: pl.DataFrame, heard: pl.DataFrame, key: Sequence[str], clock: Clock
    ) -> pl.DataFrame:
        """Set `stale_at` in every row of state; in event time the rows are as they are.

        Args:
            state: rows that a step keeps, with `stale_at` or without.
            before: rows of the keys that go on, as they were kept before; of the others nothing is carried over.
            heard: events that the step has taken; their keys are due anew. A key of which nothing is known (state that
                was seeded or moved without) counts as heard of now.
            key: the job's.
            clock: the batch's.
        """
        if self.in_event_time:
            return state
        due = pl.lit(shifted(clock.processing_time, self.after), _TIME)
        kept = before.group_by(key).agg(pl.col(STALE_AT).max())
        came = heard.select(key).unique().with_columns(due.alias(STALE_AT))
        timers = pl.concat([kept, came]).group_by(key).agg(pl.col(STALE_AT).max())
        rows = state.drop(STALE_AT, strict=False).join(timers, on=list(key), how="left", maintain_order="left")
        return rows.select(state.columns if STALE_AT in state.columns else rows.columns).with_columns(
            pl.col(STALE_AT).fill_null(due)
        )
