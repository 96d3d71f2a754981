"""The clock of a step, and the reserved columns of state that it makes due."""

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
    """What time it is in a step: `now()` has no place there.

    Attributes:
        late_watermark: the watermark before this batch: events at or behind it are late. The year 1 at first.
        watermark: the watermark after it: event time that has passed once the batch's events are in. What is due by
            then closes now. Never less than `late_watermark`, and never so much that an event of this run which is
            still to come would be behind it.
        processing_time: when this batch was planned; the same again when it is replayed.
        answers: where a step that asks the world outside keeps what it was told, before it uses it.
        watermarks: of a job with several inputs, how far each has come after the batch, by name; idle ones too.
        lookups: rows of the job's lookups, by name, as they were when the batch was planned.

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
