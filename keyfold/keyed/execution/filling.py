"""Make a generation: `fill` is the one way, for a first run, a refresh, a branch, a move and a seed.

First come empty tables, then the generation's record (a folder without one is no generation), then the tables and the state that
its source gives, and its clock. Nothing of it is live: a generation that was cut off is removed by the next one.
"""

import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl
from deltalake import DeltaTable

from keyfold.errors import Misconfigured
from keyfold.journal.clock import ignore_jumps, read_clock
from keyfold.keyed.execution.batches import Batches
from keyfold.keyed.execution.generation_sources import STAGED, Beginning, Events, Source
from keyfold.keyed.execution.read import SPLITS
from keyfold.keyed.execution.writing_state import ChangeRows, first_state
from keyfold.keyed.generation.batch_records import ClockRecord, KeyedPlan, PlannedClock, TableInput
from keyfold.keyed.generation.declaration import declaration_of
from keyfold.keyed.generation.generation_record import RECORD, GenerationRecord, read_record
from keyfold.keyed.generation.generations import Generation, branch_folder, next_folder
from keyfold.keyed.generation.going_live import finish_going_live
from keyfold.keyed.generation.live_record import Entry, live_generation_name
from keyfold.keyed.generation.manifests import files_of, read_manifests
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.plans.input_tables import input_ids, input_tables
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.lakehouse import Lakehouse, create_table, is_table
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.paths import table_id
from keyfold.runners import Runners
from keyfold.storage.place import Place
from keyfold.storage.storage_path import DamagedError

EVENTS = Events()
"""All events of a job's inputs."""


@dataclass(frozen=True)
class Filled:
    """A generation that was made, and is not live yet; or what one would be made of.

    Attributes:
        generation: the generation.
        rows_before: rows of the source of its state.
        rows: rows of state that it begins with; None if that is not known yet, since nothing was changed.
        table_rows: rows that its tables begin with, by table.
    """

    generation: Generation
    rows_before: int = 0
    rows: int | None = 0
    table_rows: Mapping[str, int] = field(default_factory=dict)


def unchanged(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows of state as they are: the change that changes nothing."""
    return rows


def fill(
    runners: Runners,
    lakehouse: Lakehouse,
    job: KeyedJob,
    source: Source = EVENTS,
    change: ChangeRows = unchanged,
    *,
    branch: str | None = None,
    partitions: int | None = None,
    at_address: bool = False,
) -> Filled:
    """Make a generation of a job beside the live one, with the state that it begins with. The caller must hold the job's lock.

    Runs read on in it from where the source has come to; make it live with `go_live`.

    Args:
        source: what it is made of.
        change: makes rows of the job's state of the source's rows.
        branch: the name of the branch that it is; it replaces a branch of the same name. None for a generation that can go live.
        partitions: number of state partitions; None for the runners'.
        at_address: whether it goes live at once, so that tables that do not exist yet are made where they are then.

    Raises:
        KeyfoldError: another job has a table of the same name, the branch's name cannot be the name of a folder and a table, or
            rows or tables of the source do not fit the job. The live generation stays as it is.

    Example:
        >>> fill(runners, lakehouse, job, StateAfter(live, done, "key_groups")).rows  # doctest: +SKIP
    """
    if branch is not None:
        folder, replacing = branch_folder(lakehouse, job.name, branch), ()
        folder.remove_tree(missing_ok=True)
    else:
        _check_names(lakehouse, job)
        # A generation that is live by an earlier decision must have its tables before it is replaced.
        finish_going_live(lakehouse, job.name)
        # The entry is read now, and not when it goes live: it may replace only the generation that was live at its creation.
        folder, entry = next_folder(lakehouse, job.name)
        replacing: tuple[Entry | None, ...] = (entry,)
    number = partitions or runners.partitions
    generation = _created(lakehouse, job, source, folder, replacing, branch or "", number, at_address=at_address)
    beginning = source.begin(job, generation)
    if beginning is None:
        return Filled(generation)
    fail_point("fill: source ready")
    _write_state(runners, lakehouse, job, generation, beginning, change, source.name)
    manifests = read_manifests(generation.manifests, files_of(generation.journal.last_done())).values()
    rows = sum(part.rows for packed in manifests for part in Manifest.unpack(packed).parts)
    return Filled(generation, beginning.seed.state_rows, rows, beginning.table_rows)


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


def _created(
    lakehouse: Lakehouse,
    job: KeyedJob,
    source: Source,
    folder: Place,
    replacing: tuple[Entry | None, ...],
    branch: str,
    partitions: int,
    *,
    at_address: bool,
) -> Generation:
    """Create the generation, with empty tables and without a batch."""
    tables = input_tables(lakehouse, job)
    for input_ in job.inputs.values():
        _check_has_times(lakehouse, job.name, input_, tables[input_.table])
    generation = Generation(folder, GenerationRecord(identity="", job=job.name))
    places: dict[str, Place] = {}
    for table in job.tables:
        # Nobody reads the tables of a job that has none yet.
        is_first = at_address and not is_table(lakehouse.live_table(table.name))
        places[table.name] = lakehouse.live_table(table.name) if is_first else generation.aside(table.name)
        # Before the record: a folder without one is removed by the next run.
        create_table(places[table.name], table.schema, is_read_by_version=True)
    fail_point("generation: tables made")
    record = GenerationRecord(
        identity=uuid.uuid4().hex,
        job=job.name,
        created_at=datetime.now(UTC),
        origin=source.origin,
        branch=branch,
        span=source.span,
        share=source.share,
        partitions=partitions,
        splits=SPLITS,
        parameters=dict(job.parameters),
        declaration=declaration_of(job),
        table_ids={name: table_id(place) for name, place in places.items()},
        input_ids=input_ids(lakehouse, job),
    )
    (folder / RECORD).write_json(record.model_dump(mode="json"), once=True)
    fail_point("generation: created")
    return Generation(folder, record, replacing)


def _check_has_times(lakehouse: Lakehouse, job: str, input_: Input, events: Place) -> None:
    columns = [field.name for field in DeltaTable(str(events)).schema().fields]
    if input_.stored_time not in columns:
        remedy = (
            ("run", input_.producer, "--full-refresh")
            if input_.producer
            else ("ingest", input_.stream.name, "--rebuild")
        )
        raise Misconfigured(
            f"job {job} goes by {input_.stored_time}, a column that {input_.table} does not have (it has "
            f"{', '.join(columns)}); run `{lakehouse.command(*remedy)}` once"
        )


def _write_state(
    runners: Runners,
    lakehouse: Lakehouse,
    job: KeyedJob,
    generation: Generation,
    beginning: Beginning,
    change: ChangeRows,
    source: str,
) -> None:
    """Run the first batch of a generation, which writes its state, and write its clock."""
    before, watermark, seed = beginning.clock, beginning.watermark, beginning.seed
    reading, _ = ignore_jumps(
        before.reading if before else None, read_clock(), before.processing_time if before else None
    )
    # The state may come from a machine whose clock is ahead. Processing time never goes back: timers that fired stay fired.
    processing_time = max(before.processing_time, reading.time) if before else reading.time
    positions = beginning.positions
    plan = KeyedPlan(
        batch=0,
        run=0,
        batches=1,
        planned_at=reading.wall,
        inputs=tuple(
            TableInput(table=input_.table, input=name, position=positions[input_.table])
            for name, input_ in job.inputs.items()
            if input_.table in positions
        ),
        seed=seed,
        clock=PlannedClock(previous_watermark=watermark, watermark=watermark, processing_time=processing_time),
        times=dict(beginning.times),
        reading=reading,
        rows=seed.state_rows,
    )
    generation.journal.write_plans([plan])
    tasks = first_state(job, generation, beginning.read, change, source)
    Batches(runners, lakehouse, job, generation, tasks=tasks).run_planned()
    (generation.folder / STAGED).unlink(missing_ok=True)
    # Ticks of the old generation advanced its watermark further than its last batch: windows that they closed stay closed.
    reached_by_ticks = max(watermark, before.watermark) if before else watermark
    generation.write_clock(ClockRecord(watermark=reached_by_ticks, processing_time=processing_time, reading=reading))
    fail_point("fill: state written")
