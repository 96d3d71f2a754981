"""Generations: a job's checkpoint, state and tables belong together and are replaced together.

A generation is born beside the live one and goes live by one atomic write of `current.json`; a crash before that leaves
the old one live. Its birth record holds what must not change while it lives. A branch is a generation that never goes
live: a replay of a time range, to look at beside the live tables.
"""

import re
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.errors import KeyfoldError
from spark_jobs.keyed.contract import KeyedJob
from spark_jobs.lakehouse import Lakehouse, create_table, read_json, write_json

_RECORD = "generation.json"


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
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def ticks(self) -> Path:
        return self.folder / "ticks"

    @property
    def batches(self) -> Path:
        return self.folder / "batches"

    def table(self, name: str) -> Path:
        return self.folder / "tables" / name


def live_generation(lakehouse: Lakehouse, job: str) -> Generation | None:
    """The live generation of a job, or None before its first run."""
    pointer = lakehouse.job(job) / "current.json"
    if not pointer.exists():
        return None
    folder = pointer.parent / read_json(pointer)["generation"]
    if not (folder / _RECORD).exists():
        raise KeyfoldError(f"{pointer} names {folder.name}, which is gone; restore it or run with --full-refresh")
    return Generation(folder, read_json(folder / _RECORD))


def new_generation(spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob) -> Generation:
    """Bear a generation beside the live one, with empty tables; it is not live yet."""
    live = live_generation_name(lakehouse, job.name)
    remove_dead_generations(lakehouse, job.name)
    number = 1 if live is None else int(live.rpartition("-")[2]) + 1
    return _born(spark, job, lakehouse.job(job.name) / f"generation-{number:04d}")


def new_branch(spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, name: str) -> Generation:
    """Bear a branch of a name, with empty tables; one of the same name is replaced.

    Raises:
        KeyfoldError: the name is none that a folder and a table can have.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name):
        raise KeyfoldError(f"branch {name!r}: a name has lower-case letters, digits, _ and -, at most 64")
    folder = lakehouse.job(job.name) / "branches" / name
    if folder.exists():
        shutil.rmtree(folder)
    return _born(spark, job, folder)


def go_live(lakehouse: Lakehouse, generation: Generation) -> None:
    """Make a generation the live one, in one atomic step."""
    write_json(lakehouse.job(generation.record["job"]) / "current.json", {"generation": generation.name})


def remove_dead_generations(lakehouse: Lakehouse, job: str) -> None:
    """Delete what a crash left unborn and what is older than the live generation's forerunner."""
    live = live_generation_name(lakehouse, job)
    forerunner = None if live is None else f"generation-{int(live.rpartition('-')[2]) - 1:04d}"
    for folder in lakehouse.job(job).glob("generation-*"):
        if folder.name not in (live, forerunner):
            shutil.rmtree(folder)


def live_generation_name(lakehouse: Lakehouse, job: str) -> str | None:
    """The folder name of the live generation, which need not be readable."""
    pointer = lakehouse.job(job) / "current.json"
    return read_json(pointer)["generation"] if pointer.exists() else None


def check_generation(generation: Generation, job: KeyedJob) -> None:
    """See that a job can go on where a generation stands.

    Raises:
        KeyfoldError: a setting fixed at birth differs, or the checkpoint is not where it was; names the remedy.
    """
    record = generation.record
    where = f"job {job.name}, {generation.name}"
    now = {
        "key": list(job.key),
        "key_groups": job.key_groups,
        "schema_version": job.schema_version,
        "parameters": _bound(job.parameters, job),
    }
    for setting, value in now.items():
        born = _bound(record[setting], job) if setting == "parameters" else record[setting]
        if born != value:
            raise KeyfoldError(
                f"{where} was born with {setting} {_changed(born, value)} and now runs with "
                f"{_changed(value, born)}; set it back, or start a new generation with --full-refresh"
            )
    checkpoint = generation.checkpoint
    if record["checkpoint"] != str(checkpoint):
        raise KeyfoldError(
            f"{where}: its checkpoint was made at {record['checkpoint']} and now stands at {checkpoint}; "
            "move it back, or start a new generation with --full-refresh"
        )
    if any(generation.batches.glob("*.json")) and not (checkpoint / "metadata").exists():
        raise KeyfoldError(
            f"{where}: its checkpoint {checkpoint} is missing although batches were written; "
            "restore it, or start a new generation with --full-refresh"
        )


def _born(spark: SparkSession, job: KeyedJob, folder: Path) -> Generation:
    record = {
        "identity": uuid.uuid4().hex,
        "job": job.name,
        "born_at": datetime.now(UTC).isoformat(),
        "checkpoint": str(folder / "checkpoint"),
        "key": list(job.key),
        "key_groups": job.key_groups,
        "schema_version": job.schema_version,
        "shuffle_partitions": int(spark.conf.get("spark.sql.shuffle.partitions") or 200),
        "parameters": dict(job.parameters),
    }
    generation = Generation(folder, record)
    for table in job.tables:
        create_table(generation.table(table.name), table.schema)
    write_json(folder / _RECORD, record)
    return generation


def _bound(parameters: Mapping[str, Any], job: KeyedJob) -> dict[str, Any]:
    """The parameters that are the generation's, without those that each run is free to choose."""
    return {name: value for name, value in parameters.items() if name not in job.free_parameters}


def _changed(value: Any, other: Any) -> str:
    """Of two parameter sets, show only what differs."""
    if isinstance(value, dict) and isinstance(other, dict):
        value = {name: value.get(name) for name in sorted({*value, *other}) if value.get(name) != other.get(name)}
    return str(value)
