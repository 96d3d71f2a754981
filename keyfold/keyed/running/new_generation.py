"""Create generations and branches: first the empty tables, then the birth record. A folder without one is no generation."""

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from keyfold.errors import Misconfigured
from keyfold.keyed.generation.fingerprint import fixed_settings
from keyfold.keyed.generation.generations import (
    FORMAT,
    RECORD,
    Generation,
    Origin,
    branch_folder,
    next_folder,
)
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.plans.inputs import input_tables
from keyfold.keyed.running.read import LEAST_SPLITS
from keyfold.lakehouse import Lakehouse, create_table
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import remove_tree, write_json_once
from keyfold.lakehouse.paths import table_id
from keyfold.storage.place import Place


def new_generation(
    spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob, origin: Origin | None = None
) -> Generation:
    """Create a generation beside the live one, with empty tables. It is not live yet."""
    # The tag is read now, and not when it goes live: it may replace only the generation that was live at its creation.
    folder, tag = next_folder(lakehouse, job.name)
    return _create(spark, lakehouse, job, folder, tag, {"origin": origin and asdict(origin)})


def new_branch(
    spark: SparkSession,
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
    bounds = [None if bound is None else bound.isoformat() for bound in span]
    return _create(spark, lakehouse, job, folder, None, {"branch": name, "span": bounds})


def _create(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    folder: Place,
    pointer_tag: str | None,
    more: Mapping[str, Any],
) -> Generation:
    tables = input_tables(lakehouse, job)
    for one in job.all_inputs.values():
        _check_has_times(lakehouse, job.name, one, tables[one.table])
    generation = Generation(folder, {})
    for table in job.tables:
        # Before the birth record: a folder without one is removed by the next run.
        create_table(generation.table(table.name), table.schema)
    reached("generation: tables made")
    record = {
        "format": FORMAT,
        # Not the folder's name: after a restored backup, a new generation of that name would find its batches committed.
        "identity": uuid.uuid4().hex,
        "job": job.name,
        **more,
        "born_at": datetime.now(UTC).isoformat(),
        # Recorded, since the state is partitioned by it, and a later session may be configured differently.
        "shuffle_partitions": int(spark.conf.get("spark.sql.shuffle.partitions") or 200),
        # Recorded too: a runner counts batch * splits + split.
        "splits": max(LEAST_SPLITS, spark.sparkContext.defaultParallelism),
        "parameters": dict(job.parameters),
        "fixed": {**fixed_settings(job), "parameters": dict(job.parameters)},
        "table_ids": {table.name: table_id(generation.table(table.name)) for table in job.tables},
        "input_ids": {name: table_id(table) for name, table in tables.items()},
    }
    write_json_once(folder / RECORD, record)
    reached("generation: born")
    return Generation(folder, record, pointer_tag)


def _check_has_times(lakehouse: Lakehouse, job: str, one: Input, events: Place) -> None:
    columns = [field.name for field in DeltaTable(str(events)).schema().fields]
    if one.stored_time not in columns:
        remedy = ("run", one.producer, "--full-refresh") if one.producer else ("ingest", one.stream.name, "--rebuild")
        raise Misconfigured(
            f"job {job} goes by {one.stored_time}, a column that {one.table} does not have (it has "
            f"{', '.join(columns)}); once run `{lakehouse.command(*remedy)}`"
        )
