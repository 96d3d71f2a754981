"""Define the clock of a step, and the reserved columns of state for timers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from keyfold.keyed.rows.answers import Answers, AnswersInMemory

DEADLINE = "deadline"
"""Reserved state column: timestamp (UTC), event time at which the row is due."""
STALE_AT = "stale_at"
"""Reserved state column: timestamp (UTC), processing time at which the row is due."""


@dataclass(frozen=True)
class Clock:
    """The clock of a batch. A step uses it in place of `now()`, so that a repeated batch has the same times.

    Attributes:
        late_watermark: the watermark before the batch; events at or behind it are late. Initially the year 1.
        watermark: the watermark after the batch's events; timers up to then are due. It is never before `late_watermark`,
            and never ahead of an event that a later batch of this run reads.
        processing_time: when the run was planned; the same when the batch is repeated.
        answers: stores answers of external services before the step uses them.
        watermarks: for a job with several inputs, the watermark of each input after the batch, by name; idle ones too.
        lookups: rows of the job's lookups, by name, as of when the run was planned.

    Example:
        >>> from datetime import timedelta
        >>> noon = datetime(2026, 1, 31, 12)
        >>> clock = Clock(late_watermark=noon, watermark=noon + timedelta(minutes=5), processing_time=noon)
        >>> due = pl.DataFrame({"user": ["ann", "bob"], DEADLINE: [noon, noon + timedelta(hours=1)]})
        >>> due.filter(pl.col(DEADLINE) <= clock.watermark)["user"].to_list()
        ['ann']
    """

    late_watermark: datetime
    watermark: datetime
    processing_time: datetime
    answers: Answers = field(default_factory=AnswersInMemory)
    watermarks: Mapping[str, datetime] = field(default_factory=dict)
    lookups: Mapping[str, pl.DataFrame] = field(default_factory=dict)
