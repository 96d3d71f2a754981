"""Generations: a job's journal, checkpoint, state and tables belong together and are replaced together.

A generation is born beside the live one and goes live by one atomic write of `current.json`; a crash before that leaves
the old one live. Its birth record holds what must not change while it lives. A branch is a generation to
look at beside the live tables: a replay of all of history, which may be promoted, or of a time range.
"""

import re
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.errors import KeyfoldError
from spark_jobs.journal import Journal
from spark_jobs.keyed.contract import KeyedJob
from spark_jobs.keyed.hashing import HASH
from spark_jobs.keyed.records import ClockRecord, KeyedDone, KeyedPlan
from spark_jobs.lakehouse import Lakehouse, create_table, read_json, write_json
from spark_jobs.lakehouse.fail_points import reached
from spark_jobs.lakehouse.tables import table_id

_RECORD = "generation.json"
_CLOCK = "standing.json"
_FORMAT = 2
"""Of what a generation consists of; the first had no journal."""


@dataclass(frozen=True)
class Generation:
    """One generation of a job, on disk at `folder`."""

    folder: Path
    record: dict[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def identity(self) -> str:
        """Unique for ever, so that Delta never takes a new generation's batch 0 for an old one's."""
        return self.record["identity"]

    @property
    def origin(self) -> "Origin | None":
        """Where its first state came from; None of one that began with none."""
        origin = self.record.get("origin")
        return Origin(**origin) if origin else None

    @property
    def seed(self) -> Path:
        """Files of the state that it began with."""
        return self.folder / "seed"

    @property
    def journal(self) -> Journal[KeyedPlan, KeyedDone]:
        return Journal(self.folder / "journal", KeyedPlan, KeyedDone, "start a new generation with --full-refresh")

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def answers(self) -> Path:
        return self.folder / "answers"

    def clock(self) -> ClockRecord | None:
        """How far time has gone since the last batch, None where nothing has said so.

        Raises:
            KeyfoldError: the record is damaged, or another version of Keyfold wrote it.
        """
        return self.journal.read_record(_CLOCK, ClockRecord)

    def write_clock(self, clock: ClockRecord) -> None:
        """Write how far time has gone, durably; call it under the job's lock."""
        self.journal.write_record(_CLOCK, clock)

    def table(self, name: str) -> Path:
        return self.folder / "tables" / name


def live_generation(lakehouse: Lakehouse, job: str) -> Generation | None:
    """The live generation of a job, or None before its first run.

    Raises:
        KeyfoldError: the pointer to it is lost, it is gone, or an earlier form of Keyfold made it; names the remedy.
    """
    pointer = lakehouse.job(job) / "current.json"
    if not pointer.exists():
        # A lost pointer is no fresh start: that would read all events into a second history.
        if begun := [
            folder.name for folder in _born_folders(lakehouse, job) if any(folder.glob("journal/*.done.json"))
        ]:
            raise KeyfoldError(
                f"job {job}: {pointer} is lost, while {', '.join(begun)} stand there; restore it, or write "
                f'{{"generation": "{begun[-1]}"}} to it, or start over with --full-refresh'
            )
        return None
    folder = pointer.parent / read_json(pointer)["generation"]
    if not (folder / _RECORD).exists():
        raise KeyfoldError(f"{pointer} names {folder.name}, which is gone; restore it or run with --full-refresh")
    generation = Generation(folder, read_json(folder / _RECORD))
    if generation.record.get("format") != _FORMAT:
        raise KeyfoldError(
            f"job {job}: {folder.name} was made by an earlier form of Keyfold, which kept no journal; its tables can be "
            f"read, and to go on the job reads all events again, once: "
            f"`{lakehouse.command('run', job, '--full-refresh')}`"
        )
    return generation


@dataclass(frozen=True)
class Origin:
    """Where a generation's first state came from.

    Attributes:
        how: the tool that made it.
        what: it was made of.
        events_skipped: rows of the event table that it begins behind: what became of them is told by nothing it has.
        events_seeded: that its first state stood for and that are none of the event table's rows it counts.
    """

    how: str
    what: str
    events_skipped: int = 0
    events_seeded: int = 0


def new_generation(
    spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, origin: Origin | None = None
) -> Generation:
    """Bear a generation beside the live one, with empty tables; it is not live yet."""
    remove_dead_generations(lakehouse, job.name)
    return _born(spark, lakehouse, job, generation_folder(lakehouse, job.name), {"origin": origin and asdict(origin)})


def generation_folder(lakehouse: Lakehouse, job: str) -> Path:
    """Where the next generation of a job is to be."""
    numbers = [int(folder.name.rpartition("-")[2]) for folder in lakehouse.job(job).glob("generation-*")]
    live = live_generation_name(lakehouse, job)
    # The live one's too, where its folder is lost: a second of its name would pass for it.
    numbers += [int(live.rpartition("-")[2])] if live else []
    return lakehouse.job(job) / f"generation-{max(numbers, default=0) + 1:04d}"


def new_branch(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    name: str,
    span: tuple[datetime | None, datetime | None] = (None, None),
) -> Generation:
    """Bear a branch of a name, with empty tables; one of the same name is replaced. `span` is what it is to read.

    Raises:
        KeyfoldError: the name is none that a folder and a table can have.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name):
        raise KeyfoldError(f"branch {name!r}: a name has lower-case letters, digits, _ and -, at most 64")
    folder = lakehouse.job(job.name) / "branches" / name
    if folder.exists():
        shutil.rmtree(folder)
    bounds = [None if bound is None else bound.isoformat() for bound in span]
    return _born(spark, lakehouse, job, folder, {"branch": name, "span": bounds})


def go_live(lakehouse: Lakehouse, generation: Generation) -> None:
    """Make a generation the live one, in one atomic step."""
    reached("generation: before it goes live")
    # One small file, replaced whole: a reader finds the old generation or the new one.
    write_json(lakehouse.job(generation.record["job"]) / "current.json", {"generation": generation.name})
    reached("generation: live")


def remove_dead_generations(lakehouse: Lakehouse, job: str) -> None:
    """Delete what a crash left half made, and all but the live generation and its forerunner.

    While the pointer to the live one is lost, nothing that has a batch is deleted: it may be the one.
    """
    live = live_generation_name(lakehouse, job)
    folders = sorted(lakehouse.job(job).glob("generation-*"))
    # The forerunner too: who opened its tables before the switch may still be reading.
    kept = [folder.name for folder in folders if live is not None and folder.name <= live][-2:]
    for folder in folders:
        has_batches = any(folder.glob("journal/*.done.json"))
        if folder.name in kept or (live is None and has_batches) or _waits_to_go_live(folder, live):
            continue
        shutil.rmtree(folder)


def _waits_to_go_live(folder: Path, live: str | None) -> bool:
    """Whether it is a branch whose promotion was killed behind its renaming: `keyfold promote` goes on with it."""
    record = folder / _RECORD
    return live is not None and folder.name > live and record.exists() and "branch" in read_json(record)


def live_generation_name(lakehouse: Lakehouse, job: str) -> str | None:
    """The folder name of the live generation, which need not be readable."""
    pointer = lakehouse.job(job) / "current.json"
    return read_json(pointer)["generation"] if pointer.exists() else None


def check_generation(generation: Generation, job: KeyedJob) -> None:
    """See that a job can go on where a generation stands.

    Raises:
        KeyfoldError: something that was fixed at its birth differs; says what, and names the remedy.
    """
    for setting, value in fixed(job).items():
        born = generation.record["fixed"].get(setting)
        # Of those born with, too: a parameter may have become free since.
        if setting == "parameters":
            born = _bound(born, job)
        if born != value:
            raise KeyfoldError(
                f"job {job.name}, {generation.name} was born with {setting} {_changed(born, value)} and now runs with "
                f"{_changed(value, born)}; set it back, ask what the change takes (`keyfold plan {job.name}`), or start a new "
                "generation with --full-refresh"
            )


def fixed(job: KeyedJob) -> dict[str, Any]:
    """All that must not change while a generation lives: whatever decides where state lies, what it says, or its rows."""
    return {
        "stream": job.stream,
        "key": list(job.key),
        "key_groups": job.key_groups,
        "hash": HASH,
        "event_time": f"{job.event_time} from {job.time_from}" if job.time_from else job.event_time,
        "watermark_delay": job.watermark_delay.total_seconds(),
        "derived": {name: str(how) for name, how in job.derived.items()},
        "keys_of": None if job.keys_of is None else str(job.keys_of),
        # None without any, as of generations that were born before there were some.
        "contents": dict(job.contents) or None,
        "combines": job.combine is not None,
        "step_decides_late": job.step_decides_late,
        "schema_version": job.schema_version,
        "columns of events": _columns(job.events),
        "columns of state": _columns(job.state),
        "tables": {table.name: [table.mode, list(table.key)] for table in job.tables},
        **{f"columns of {table.name}": _columns(table.schema) for table in job.tables},
        "parameters": _bound(job.parameters, job),
    }


def _born(
    spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, folder: Path, more: Mapping[str, Any]
) -> Generation:
    events = lakehouse.events(job.stream)
    _check_has_times(lakehouse, job, events)
    generation = Generation(folder, {})
    for table in job.tables:
        # Before the birth record: without one the folder counts for nothing, and is cleared away.
        create_table(generation.table(table.name), table.schema)
    reached("generation: tables made")
    record = {
        "format": _FORMAT,
        # And not its name: another one of that name, after a restored backup, would find its batches taken already.
        "identity": uuid.uuid4().hex,
        "job": job.name,
        **more,
        "born_at": datetime.now(UTC).isoformat(),
        # Written down: Spark freezes the number into the checkpoint, and a session of another time has another.
        "shuffle_partitions": int(spark.conf.get("spark.sql.shuffle.partitions") or 200),
        "parameters": dict(job.parameters),
        "fixed": {**fixed(job), "parameters": dict(job.parameters)},
        "table_ids": {table.name: table_id(generation.table(table.name)) for table in job.tables},
        "input_ids": {f"events.{job.stream}": table_id(events)},
    }
    write_json(folder / _RECORD, record)
    reached("generation: born")
    return Generation(folder, record)


def _check_has_times(lakehouse: Lakehouse, job: KeyedJob, events: Path) -> None:
    there = [field.name for field in DeltaTable(str(events)).schema().fields]
    if job.stored_time not in there:
        raise KeyfoldError(
            f"job {job.name} goes by {job.stored_time}, a column that events.{job.stream} does not have (it has "
            f"{', '.join(there)}); if an older Keyfold made the table, once run "
            f"`{lakehouse.command('ingest', job.stream, '--rebuild')}`"
        )


def _born_folders(lakehouse: Lakehouse, job: str) -> list[Path]:
    return sorted(folder for folder in lakehouse.job(job).glob("generation-*") if (folder / _RECORD).exists())


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: f"{field.type}{'' if field.nullable else ' not null'}" for field in schema}


def _bound(parameters: Mapping[str, Any], job: KeyedJob) -> dict[str, Any]:
    """The parameters that are the generation's, without those that each run is free to choose."""
    return {name: value for name, value in parameters.items() if name not in job.free_parameters}


def _changed(value: Any, other: Any) -> str:
    """Of two sets of settings, show only what differs."""
    if isinstance(value, dict) and isinstance(other, dict):
        value = {name: value.get(name) for name in sorted({*value, *other}) if value.get(name) != other.get(name)}
    return str(value)
