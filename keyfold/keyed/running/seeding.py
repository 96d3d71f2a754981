"""Start a generation with existing state: its first batch reads files of state in place of events, and calls no step.

The next batch handles timers that are due and events that have arrived since, as after any other batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import SparkSession

from keyfold.journal.clock import Reading, ignore_jumps, read_clock
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
from keyfold.keyed.running.batches import Batches
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.positions import Position


@dataclass(frozen=True)
class Beginning:
    """The state and the position that a generation starts with.

    Attributes:
        files: files of state below the generation's folder `seed`, with the job's columns of state.
        events, rows: events that were read and rows that were written before; see `batch_records.Seed`.
        positions: by input table, how far the state includes it; a table that is not named is read from its beginning.
        watermark: the watermark of the state.
        times, arrivals: as in the commit record.
        clock: the clock of the generation that the state comes from; None if it comes from elsewhere.
    """

    files: tuple[PlannedFile, ...]
    events: int
    positions: Mapping[str, Position]
    watermark: datetime
    rows: dict[str, int]
    times: Mapping[str, InputTime] = field(default_factory=dict)
    arrivals: tuple[datetime, ...] = ()
    clock: ClockRecord | None = None


def seed_generation(
    spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, generation: Generation, beginning: Beginning
) -> KeyedDone:
    """Run the first batch of a new generation, which reads its state. Make it live with `go_live` afterwards.

    Raises:
        KeyfoldError: the files do not hold state of the job. The generation cannot be used then.
    """
    before = beginning.clock
    reading, _ = ignore_jumps(before.reading if before else None, read_clock())
    # The state may come from a machine whose clock is ahead. Processing time never goes back: timers that fired stay fired.
    processing_time = max(before.processing_time, reading.time) if before else reading.time
    plan = _plan(job, beginning, reading, processing_time)
    generation.journal.write_plans([plan])
    # There is no next plan: the journal has the only one.
    Batches(spark, lakehouse, job, generation, lambda: None, None).work()
    watermark = max(beginning.watermark, before.watermark) if before else beginning.watermark
    clock = ClockRecord(watermark=watermark, processing_time=processing_time, reading=reading)
    # Ticks of the old generation advanced its watermark further than its last batch: windows that they closed stay closed.
    generation.write_clock(clock)
    reached("seed: taken in")
    done = generation.journal.last_done()
    assert done is not None  # noqa: S101 - work ends without an error only after its batch
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
