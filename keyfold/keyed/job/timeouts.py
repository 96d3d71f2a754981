"""Timeouts of keys, in event time or in processing time.

In event time, the silence of a key is the time between two of its events. A step sets a `deadline` after the last one, and the
engine calls it for the deadline before the events that follow the silence. In processing time, silence begins with the batch that brought the key's last event: `renew` sets
`processing_deadline` for keys with events, and the engine calls the step for the keys that have timed out before it calls it
with events. So in processing time:

- **A key closes before its next events.** If a run finds that a key has timed out and has new events, it closes the key first,
  and the events start it again. So results do not depend on how often runs look.
- **All rows of a key close together.** Its events that wait for the watermark are processed first, in order of event time.
- **Later events are not late.** They are late only if they are behind the watermark, and otherwise start the key again. So the
  step of such a job decides which events are late (`STEP_DECIDES`).
- **A run is one moment.** All events of a run have the processing time of its plan. Past events that are read in one run have
  no silence between them. A repeated batch has the same processing time.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock
from keyfold.times import as_duration, shifted, to_silence
from keyfold.validation import argument, declaration

TimeKind = Literal["event_time", "processing_time"]

_TIME = pl.Datetime("us", "UTC")


@declaration("a timeout")
class Timeout:
    """The longest silence of a key, in event time or processing time.

    Attributes:
        after: the longest silence, also as text, such as `"30m"`.
        in_: `event_time`, or `processing_time`.

    Example:
        Count the clicks of each user until the user has been silent for half a minute of processing time.

        >>> from datetime import UTC
        >>> from keyfold import STEP_DECIDES, Append, Input, KeyedJob, State, Step, Stream, TestHarness
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> silence = Timeout(timedelta(seconds=30), "processing_time")
        >>> silence.add_column(pa.schema([user, ("clicks", pa.int64())])).names
        ['user', 'clicks', 'processing_deadline']
        >>> def count(state, events, clock):
        ...     if silence.has_run_out(state, clock):
        ...         return Step(state=state.clear(), output=state.drop(PROCESSING_DEADLINE))
        ...     came = events.group_by("user").agg(clicks=pl.len().cast(pl.Int64))
        ...     counts = pl.concat([state.drop(PROCESSING_DEADLINE), came]).group_by("user").agg(pl.col("clicks").sum())
        ...     return Step(state=silence.renew(counts, state, events, ["user"], clock))
        >>> click = Stream("clicks", pa.schema([user, ("at", pa.timestamp("us", "UTC"))]), event_time="at")
        >>> counted, of_events = {"user": pa.string(), "clicks": pa.int64()}, pl.col("clicks").sum()
        >>> state = State(silence.add_column(pa.schema([user, ("clicks", pa.int64())])), events=of_events)
        >>> came = Input(click, columns=("user", "at"), final_at=STEP_DECIDES)
        >>> harness = TestHarness(KeyedJob("visits", came, "user", state, count, Append(counted, events=of_events)))
        >>> for seconds, users in ((0, ["ann", "bob"]), (20, ["ann"]), (45, ["bob"])):
        ...     now = datetime(2026, 1, 31, 12, 0, seconds, tzinfo=UTC)
        ...     _ = harness.batch(pl.DataFrame({"user": users, "at": [now] * len(users)}), now)
        >>> harness.written["visits"].rows(), sorted(harness.state.select("user", "clicks").rows())
        ([('bob', 1)], [('ann', 2), ('bob', 1)])
    """

    after: timedelta = argument(converter=to_silence)
    in_: TimeKind = "event_time"

    @property
    def in_event_time(self) -> bool:
        """Whether it is in event time."""
        return self.in_ == "event_time"

    @property
    def column(self) -> str:
        """The timer column of state: `deadline`, or `processing_deadline`."""
        return DEADLINE if self.in_event_time else PROCESSING_DEADLINE

    def add_column(self, state: pa.Schema) -> pa.Schema:
        """Return a schema of state with the timer column, which is appended if it is missing."""
        return (
            state if self.column in state.names else state.append(pa.field(self.column, pa.timestamp("us", tz="UTC")))
        )

    def now(self, clock: Clock) -> datetime:
        """Return the current time: the watermark, or processing time."""
        return clock.watermark if self.in_event_time else clock.processing_time

    def due_at(self, event_time: pl.Expr, clock: Clock) -> pl.Expr:
        """Return the time when a key is due after an event of this batch."""
        if self.in_event_time:
            return event_time + self.after
        return pl.lit(shifted(clock.processing_time, self.after), _TIME)

    def is_due(self, clock: Clock) -> pl.Expr:
        """Return the condition that a row of state is due; a row without a timer is not."""
        return (pl.col(self.column) <= self.now(clock)).fill_null(value=False)

    def has_run_out(self, state: pl.DataFrame, clock: Clock) -> bool:
        """Whether this is the call of the step for keys that have timed out in processing time: it has no others, and no events.

        In event time it is never: there, a call may have keys of which some are due (`is_due`).
        """
        return not self.in_event_time and state.select(self.is_due(clock).any()).item()

    def renew(
        self, state: pl.DataFrame, before: pl.DataFrame, heard: pl.DataFrame, key: Sequence[str], clock: Clock
    ) -> pl.DataFrame:
        """Set `processing_deadline` in every row of state; in event time, rows are not changed.

        Args:
            state: rows that a step keeps, with or without `processing_deadline`.
            before: earlier rows of the keys that have not timed out, whose timers are kept.
            heard: events that the step has processed; the timers of their keys start again. A key without a timer, in seeded
                or moved state, counts as heard of now.
            key: the job's key.
        """
        if self.in_event_time:
            return state
        due = pl.lit(shifted(clock.processing_time, self.after), _TIME)
        stored = before.group_by(key).agg(pl.col(PROCESSING_DEADLINE).max())
        came = heard.select(key).unique().with_columns(due.alias(PROCESSING_DEADLINE))
        # Processing time never goes back, so the latest timer of a key is that of its newest events.
        timers = pl.concat([stored, came]).group_by(key).agg(pl.col(PROCESSING_DEADLINE).max())
        rows = state.drop(PROCESSING_DEADLINE, strict=False).join(
            timers, on=list(key), how="left", maintain_order="left"
        )
        return rows.select(state.columns if PROCESSING_DEADLINE in state.columns else rows.columns).with_columns(
            pl.col(PROCESSING_DEADLINE).fill_null(due)
        )


Silence = Timeout | timedelta | str
"""How a silence is given: a timeout, or a length of event time, also as text (`"30m"`)."""


def as_timeout(subject: str, silence: Silence) -> Timeout:
    """Return the timeout that a length of event time stands for.

    Raises:
        Misconfigured: it is no length of time, or nothing.

    Example:
        >>> as_timeout("job visits: gap", "30m").after
        datetime.timedelta(seconds=1800)
    """
    if isinstance(silence, Timeout):
        return silence
    after = as_duration(subject, silence)
    if not after:
        raise Misconfigured(f"{subject} is {after}; it must be positive, such as 30m")
    return Timeout(after)
