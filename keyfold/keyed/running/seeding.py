"""A generation that begins with state: its first batch reads files of state in place of events, and calls no step.

What is due of that state, and what came meanwhile, is for the batch after it: the next run goes on from here as it would
from any other batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import SparkSession

from keyfold.journal.clock import Reading, go_on, read_clock
from keyfold.keyed.generation.batch_records import (
    ClockRecord,
    InputTime,
    KeyedDone,
    KeyedPlan,
    PlannedClock,
    PlannedFile,
    Seed,
    TableInput,
)
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.running.batches import batches_on
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.positions import Position


@dataclass(frozen=True)
class Beginning:
    """Where a generation with state begins.

    Attributes:
        files: of the state, below the generation's folder `seed`, with the job's columns of state.
        events, rows: that had come and gone by then; see `records.Seed`.
        positions: by table, up to which all is in that state; a table that is not among them is read from its beginning.
        watermark: event time that the state has reached.
        times, arrivals: of the events so far, as in the commit record.
        clock: how far time had gone, of a state that another generation left.
    """

    files: tuple[PlannedFile, ...]
    events: int
    positions: Mapping[str, Position]
    watermark: datetime
    rows: dict[str, int]
    times: Mapping[str, InputTime] = field(default_factory=dict)
    arrivals: tuple[datetime, ...] = ()
    clock: ClockRecord | None = None


def take_in(
    spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, generation: Generation, beginning: Beginning
) -> KeyedDone:
    """Work on a new generation's first batch, which takes in state; the generation goes live by `go_live` after it.

    Raises:
        KeyfoldError: the files do not hold state of the job; the generation is dead then.
    """
    before = beginning.clock
    reading, _ = go_on(before.reading if before else None, read_clock())
    # Never back, though the state may come from another machine: what was stale there stays stale.
    processing_time = max(before.processing_time, reading.time) if before else reading.time
    plan = _plan(job, beginning, reading, processing_time)
    generation.journal.write_plans([plan])
    # The one plan stands in the journal, where batches look first.
    batches_on(spark, lakehouse, job, generation, lambda: None, None).work()
    watermark = max(beginning.watermark, before.watermark) if before else beginning.watermark
    clock = ClockRecord(watermark=watermark, processing_time=processing_time, reading=reading)
    # The old generation's ticks count: what it has closed on a silent stream must not open again.
    generation.write_clock(clock)
    reached("seed: taken in")
    done = generation.journal.last_done()
    assert done is not None  # noqa: S101 - the query ends without an error only behind its one batch
    return done


def _plan(job: KeyedJob, beginning: Beginning, reading: Reading, processing_time: datetime) -> KeyedPlan:
    rows = sum(file.rows for file in beginning.files)
    return KeyedPlan(
        batch=0,
        run=0,
        batches=1,
        planned_at=reading.wall,
        inputs=tuple(
            TableInput(table=one.table, input=name, position=beginning.positions[one.table])
            for name, one in job.all_inputs.items()
            if one.table in beginning.positions
        ),
        seed=Seed(files=beginning.files, events=beginning.events, rows=beginning.rows, arrivals=beginning.arrivals),
        clock=PlannedClock(
            late_watermark=beginning.watermark, watermark=beginning.watermark, processing_time=processing_time
        ),
        times=dict(beginning.times),
        reading=reading,
        rows=rows,
        rows_of_run=rows,
    )
