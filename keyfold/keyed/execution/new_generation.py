"""Create generations and branches, also with existing state: first the empty tables, then the record. A folder without one is no generation."""

import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable

from keyfold.errors import Misconfigured
from keyfold.journal.clock import ignore_jumps, read_clock
from keyfold.keyed.execution.batches import Batches
from keyfold.keyed.execution.read import SPLITS
from keyfold.keyed.generation.batch_records import (
    ClockRecord,
    InputTime,
    KeyedDone,
    KeyedPlan,
    PlannedClock,
    Seed,
    TableInput,
)
from keyfold.keyed.generation.declaration import declaration_of
from keyfold.keyed.generation.generation_record import RECORD, GenerationRecord, Origin, read_record
from keyfold.keyed.generation.generations import Generation, branch_folder, next_folder
from keyfold.keyed.generation.going_live import finish_going_live
from keyfold.keyed.generation.live_record import Entry, live_generation_name
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.plans.input_tables import input_ids, input_tables
from keyfold.lakehouse import Lakehouse, create_table, is_table
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import DamagedError, remove_tree, write_json_once
from keyfold.lakehouse.paths import table_id
from keyfold.lakehouse.positions import Position
from keyfold.runners import Runners
from keyfold.storage.place import Place


def new_generation(
    runners: Runners,
    lakehouse: Lakehouse,
    job: KeyedJob,
    origin: Origin | None = None,
    partitions: int | None = None,
    *,
    at_address: bool = False,
) -> Generation:
    """Create a generation beside the live one, with empty tables. It is not live yet.

    Args:
        origin: what its state is made of; None for a generation that begins empty.
        partitions: number of state partitions; None for the runners'.
        at_address: whether it goes live at once, so that tables that do not exist yet are made where they are then.

    Raises:
        KeyfoldError: another job has a table of the same name.
    """
    _check_names(lakehouse, job)
    # A generation that is live by an earlier decision must have its tables before it is replaced.
    finish_going_live(lakehouse, job.name)
    # The entry is read now, and not when it goes live: it may replace only the generation that was live at its creation.
    folder, entry = next_folder(lakehouse, job.name)
    more = {"origin": origin}
    return _create(partitions or runners.partitions, lakehouse, job, folder, (entry,), more, at_address=at_address)


def _check_names(lakehouse: Lakehouse, job: KeyedJob) -> None:
    own = _tables_of(lakehouse, job.name)
    for name in (table.name for table in job.tables if table.name not in own):
        others = lakehouse.home.glob("jobs/*") if is_table(lakehouse.live_table(name)) else ()
        for other in sorted(folder.name for folder in others if folder.name != job.name):
            if name in _tables_of(lakehouse, other):
                raise Misconfigured(
                    f"job {job.name} and job {other} both have a table {name}, whose address is "
                    f"{lakehouse.live_table(name)}; give one of them another name"
                )


def _tables_of(lakehouse: Lakehouse, job: str) -> Collection[str]:
    record = lakehouse.job(job) / (live_generation_name(lakehouse, job) or "") / RECORD
    # A damaged record is reported where it is needed.
    with suppress(FileNotFoundError, DamagedError):
        return read_record(record).table_ids
    return ()


def new_branch(
    runners: Runners,
    lakehouse: Lakehouse,
    job: KeyedJob,
    name: str,
    span: tuple[datetime | None, datetime | None] = (None, None),
) -> Generation:
    """Create a branch with empty tables; it replaces a branch of the same name.

    Args:
        name: the branch's name.
        span: the event times that it will read: from the first, before the second; None where it is open.

    Raises:
        KeyfoldError: the name cannot be the name of a folder and a table.
    """
    folder = branch_folder(lakehouse, job.name, name)
    if folder.exists():
        remove_tree(folder)
    return _create(runners.partitions, lakehouse, job, folder, (), {"branch": name, "span": span})


def _create(
    partitions: int,
    lakehouse: Lakehouse,
    job: KeyedJob,
    folder: Place,
    replacing: tuple[Entry | None, ...],
    more: Mapping[str, Any],
    *,
    at_address: bool = False,
) -> Generation:
    tables = input_tables(lakehouse, job)
    for one in job.inputs.values():
        _check_has_times(lakehouse, job.name, one, tables[one.table])
    generation = Generation(folder, GenerationRecord(identity="", job=job.name))
    places: dict[str, Place] = {}
    for table in job.tables:
        # Nobody reads the tables of a job that has none yet.
        is_first = at_address and not is_table(lakehouse.live_table(table.name))
        places[table.name] = lakehouse.live_table(table.name) if is_first else generation.aside(table.name)
        # Before the record: a folder without one is removed by the next run.
        create_table(places[table.name], table.schema, is_read_by_version=True)
    reached("generation: tables made")
    record = GenerationRecord(
        identity=uuid.uuid4().hex,
        job=job.name,
        created_at=datetime.now(UTC),
        partitions=partitions,
        splits=SPLITS,
        parameters=dict(job.parameters),
        declaration=declaration_of(job),
        table_ids={name: table_id(place) for name, place in places.items()},
        input_ids=input_ids(lakehouse, job),
        **more,
    )
    write_json_once(folder / RECORD, record.model_dump(mode="json"))
    reached("generation: created")
    return Generation(folder, record, replacing)


def _check_has_times(lakehouse: Lakehouse, job: str, one: Input, events: Place) -> None:
    columns = [field.name for field in DeltaTable(str(events)).schema().fields]
    if one.stored_time not in columns:
        remedy = ("run", one.producer, "--full-refresh") if one.producer else ("ingest", one.stream.name, "--rebuild")
        raise Misconfigured(
            f"job {job} goes by {one.stored_time}, a column that {one.table} does not have (it has "
            f"{', '.join(columns)}); once run `{lakehouse.command(*remedy)}`"
        )


def seed_generation(
    runners: Runners,
    lakehouse: Lakehouse,
    job: KeyedJob,
    generation: Generation,
    seed: Seed,
    positions: Mapping[str, Position],
    watermark: datetime,
    times: Mapping[str, InputTime],
    before: ClockRecord | None = None,
) -> KeyedDone:
    """Run the first batch of a new generation, which reads its state. Make it live with `go_live` afterwards.

    Args:
        seed: the state, in files below the generation's folder `seed`.
        positions: by input table, how far the state includes it; a table that is not named is read from its beginning.
        watermark: the watermark of the state.
        times: as in the commit record.
        before: the clock of the generation that the state comes from; None if it comes from elsewhere.

    Raises:
        KeyfoldError: the files do not hold state of the job. The generation cannot be used then.
    """
    reading, _ = ignore_jumps(
        before.reading if before else None, read_clock(), before.processing_time if before else None
    )
    # The state may come from a machine whose clock is ahead. Processing time never goes back: timers that fired stay fired.
    processing_time = max(before.processing_time, reading.time) if before else reading.time
    rows = sum(file.rows for file in seed.files)
    plan = KeyedPlan(
        batch=0,
        run=0,
        batches=1,
        planned_at=reading.wall,
        inputs=tuple(
            TableInput(table=one.table, input=name, position=positions[one.table])
            for name, one in job.inputs.items()
            if one.table in positions
        ),
        seed=seed,
        clock=PlannedClock(previous_watermark=watermark, watermark=watermark, processing_time=processing_time),
        times=dict(times),
        reading=reading,
        rows=rows,
        rows_of_run=rows,
    )
    generation.journal.write_plans([plan])
    # There is no next plan: the journal has the only one.
    Batches(runners, lakehouse, job, generation, lambda: None).work()
    # Ticks of the old generation advanced its watermark further than its last batch: windows that they closed stay closed.
    reached_by_ticks = max(watermark, before.watermark) if before else watermark
    generation.write_clock(ClockRecord(watermark=reached_by_ticks, processing_time=processing_time, reading=reading))
    reached("seed: taken in")
    done = generation.journal.last_done()
    assert done is not None  # noqa: S101 - work ends without an error only after its batch
    return done
