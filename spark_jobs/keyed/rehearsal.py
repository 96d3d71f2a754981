"""A job without Spark: the same step, late routing and clock, in memory, for unit tests and quick looks."""

from datetime import UTC, datetime

import polars as pl

from spark_jobs.keyed.codec import conform, empty
from spark_jobs.keyed.contract import Clock, KeyedJob, Step
from spark_jobs.keyed.operator import route_late
from spark_jobs.microseconds import EPOCH


class Rehearsal:
    """Plays micro-batches to a job, all its keys in one group.

    Attributes:
        state: what the job keeps now.
        watermark: what the next micro-batch will see.
        written: rows of each table so far, in the order they were written; upsert tables are not merged.
    """

    def __init__(self, job: KeyedJob) -> None:
        self._job = job
        self.state = empty(job.state)
        self.watermark = EPOCH
        self.written = {table.name: empty(table.schema) for table in job.tables}

    def batch(self, events: pl.DataFrame | None = None, processing_time: datetime = EPOCH) -> Step:
        """Play one micro-batch; None is one without events, in which only what is due happens."""
        job = self._job
        came = empty(job.events) if events is None else conform(events, job.events, "events")
        on_time, late = route_late(job, self.state, came, self.watermark)
        step = job.step(self.state, on_time, Clock(self.watermark, processing_time))
        self.state = conform(step.state, job.state, "state")
        late = late if step.late is None else pl.concat([late, step.late])
        for name, rows in {job.name: step.output, job.late_table: late, **step.side}.items():
            self.written[name] = pl.concat([self.written[name], rows.select(self.written[name].columns)])
        newest = came[job.event_time].max()
        if isinstance(newest, datetime):
            self.advance_to(newest - job.watermark_delay)
        return step

    def advance_to(self, moment: datetime) -> None:
        """Take event time as having reached a moment; the next micro-batch sees it. It never goes back."""
        self.watermark = max(self.watermark, moment.astimezone(UTC))
