"""Bears generations and branches: empty tables first, then the birth record, without which the folder counts for nothing."""

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from keyfold.errors import Misconfigured
from keyfold.keyed.generation.fingerprint import fixed
from keyfold.keyed.generation.generations import (
    FORMAT,
    RECORD,
    Generation,
    Origin,
    branch_folder,
    generation_folder,
    live_pointer,
    remove_dead_generations,
)
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.several_inputs import Input
from keyfold.keyed.plans.inputs import input_tables
from keyfold.keyed.running.read import LEAST_SPLITS
from keyfold.lakehouse import Lakehouse, create_table
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import remove_tree, write_json_once
from keyfold.lakehouse.tables import table_id
from keyfold.storage.place import Place


def new_generation(
    spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, origin: Origin | None = None
) -> Generation:
    """Bear a generation beside the live one, with empty tables; it is not live yet."""
    remove_dead_generations(lakehouse, job.name)
    return _born(spark, lakehouse, job, generation_folder(lakehouse, job.name), {"origin": origin and asdict(origin)})


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
    folder = branch_folder(lakehouse, job.name, name)
    if folder.exists():
        remove_tree(folder)
    bounds = [None if bound is None else bound.isoformat() for bound in span]
    return _born(spark, lakehouse, job, folder, {"branch": name, "span": bounds})


def _born(
    spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, folder: Place, more: Mapping[str, Any]
) -> Generation:
    tables = input_tables(lakehouse, job)
    for one in job.all_inputs.values():
        _check_has_times(lakehouse, job.name, one, tables[one.table])
    # Now, and not when it goes live: it is to go live in the place of what it was born beside.
    _, pointer_tag = live_pointer(lakehouse, job.name)
    generation = Generation(folder, {})
    for table in job.tables:
        # Before the birth record: without one the folder counts for nothing, and is cleared away.
        create_table(generation.table(table.name), table.schema)
    reached("generation: tables made")
    record = {
        "format": FORMAT,
        # And not its name: another one of that name, after a restored backup, would find its batches taken already.
        "identity": uuid.uuid4().hex,
        "job": job.name,
        **more,
        "born_at": datetime.now(UTC).isoformat(),
        # Written down: Spark freezes the number into the checkpoint, and a session of another time has another.
        "shuffle_partitions": int(spark.conf.get("spark.sql.shuffle.partitions") or 200),
        # Written down too: the query's source counts in it.
        "splits": max(LEAST_SPLITS, spark.sparkContext.defaultParallelism),
        "parameters": dict(job.parameters),
        "fixed": {**fixed(job), "parameters": dict(job.parameters)},
        "table_ids": {table.name: table_id(generation.table(table.name)) for table in job.tables},
        "input_ids": {name: table_id(table) for name, table in tables.items()},
    }
    write_json_once(folder / RECORD, record)
    reached("generation: born")
    return Generation(folder, record, pointer_tag)


def _check_has_times(lakehouse: Lakehouse, job: str, one: Input, events: Place) -> None:
    there = [field.name for field in DeltaTable(str(events)).schema().fields]
    if one.stored_time not in there:
        anew = ("run", one.producer, "--full-refresh") if one.producer else ("ingest", one.stream.name, "--rebuild")
        raise Misconfigured(
            f"job {job} goes by {one.stored_time}, a column that {one.table} does not have (it has "
            f"{', '.join(there)}); once run `{lakehouse.command(*anew)}`"
        )
