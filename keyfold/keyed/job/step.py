"""Define what a step gets and returns: its clock, its result and its timers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

import polars as pl

from keyfold.keyed.rows.response_cache import ResponseCache, ResponsesInMemory

DEADLINE = "deadline"
"""Reserved state column: timestamp (UTC), event time at which the row is due."""
PROCESSING_DEADLINE = "processing_deadline"
"""Reserved state column: timestamp (UTC), processing time at which the row is due."""


@dataclass(frozen=True)
class Clock:
    """The clock of a batch. A step uses it in place of `now()`, so that a repeated batch has the same times.

    Attributes:
        previous_watermark: the watermark before the batch; events at or behind it are late. Initially the year 1.
        watermark: the watermark; timers up to then are due. Between the deadlines of a key it is as far as the events of the
            call bring it, and at last the watermark after the batch. It is never before `previous_watermark`, and never ahead of
            an event that a later batch of this run reads.
        processing_time: when the run was planned; the same when the batch is repeated.
        responses: stores responses of external services before the step uses them.
        watermarks: the watermark of each input then, by name; idle ones too.
        lookups: rows of the job's lookups, by name, as of when the run was planned.

    Example:
        >>> from datetime import timedelta
        >>> noon = datetime(2026, 1, 31, 12)
        >>> clock = Clock(previous_watermark=noon, watermark=noon + timedelta(minutes=5), processing_time=noon)
        >>> due = pl.DataFrame({"user": ["ann", "bob"], DEADLINE: [noon, noon + timedelta(hours=1)]})
        >>> due.filter(pl.col(DEADLINE) <= clock.watermark)["user"].to_list()
        ['ann']
    """

    previous_watermark: datetime
    watermark: datetime
    processing_time: datetime
    responses: ResponseCache = field(default_factory=ResponsesInMemory)
    watermarks: Mapping[str, datetime] = field(default_factory=dict)
    lookups: Mapping[str, pl.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """The result of a step: the new `state`, or changes of it as `add` and `drop`; and rows for tables.

    Attributes:
        state: all rows of state to keep for the keys that were passed to the step. Rows that are left out are removed. Rows
            of other keys fail the run.
        output: rows for the job's main table.
        late: late events, for `late.<job>`.
        side: rows for the job's side outputs, by table name.
        add: in place of `state`: rows to add to those that their keys have. If keys have many rows and few are new, the
            others are not written again.
        drop: with `add` or alone: keys, in the columns of the job's key, whose rows are removed. Rows of such a key in `add`
            are then its only rows.

    Example:
        >>> still_open, ended = pl.DataFrame({"user": ["ann"]}), pl.DataFrame({"user": ["bob"], "clicks": [3]})
        >>> step = Step(state=still_open, output=ended, side={"long_sessions": ended.filter(pl.col("clicks") > 9)})
        >>> step.side["long_sessions"].height
        0

        Add one row to a state of a million rows, and remove all rows of another user.

        >>> step = Step(add=pl.DataFrame({"user": ["cat"]}), drop=ended.select("user"), output=ended)
    """

    state: pl.DataFrame = field(default_factory=pl.DataFrame)
    output: pl.DataFrame = field(default_factory=pl.DataFrame)
    late: pl.DataFrame | None = None
    side: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    add: pl.DataFrame | None = field(default=None, kw_only=True)
    drop: pl.DataFrame | None = field(default=None, kw_only=True)


StepFunction = Callable[[pl.DataFrame, Any, Clock], Step]
"""A job's step. Its events are a frame; for a job with several inputs or lookups, a mapping of frames by name."""


@runtime_checkable
class BoundStep(Protocol):
    """A step that needs its job: its columns, or the delay of an input."""

    def bound(self, job: Any) -> StepFunction:
        """Return the step of a job (`KeyedJob`)."""
        ...


@dataclass(frozen=True)
class InOneCall:
    """A step that keeps the order of a key's events and deadlines itself, whatever comes in one call, as operators do.

    The engine calls it once in a batch, and calls others a deadline at a time (`keyed.calling.calls_in_order`), which is slower
    and gives the same rows. Only operators say so: a test compares the two for each of them.
    """

    step: StepFunction | BoundStep

    def bound(self, job: Any) -> StepFunction:
        """Return the step of a job (`KeyedJob`)."""
        return self.step.bound(job) if isinstance(self.step, BoundStep) else self.step
