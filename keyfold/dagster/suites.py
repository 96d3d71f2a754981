"""Build asset checks from Great Expectations suites; they check the rows of a run, or the whole table."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC
from pathlib import Path

import dagster as dg
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from keyfold.dagster.assets.metadata import last_materialization, written_batches
from keyfold.dagster.partitions.declared import Partitions
from keyfold.dagster.quality.asset_checks import Read, Scope, SuiteChecks
from keyfold.dagster.quality.pages import ResultPages
from keyfold.dagster.quality.partition_checks import ReadPartition, when_updated
from keyfold.dagster.translator import DEFAULT, KeyfoldTranslator
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.written_files import files_written
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import scan_in_columns, scan_table
from keyfold.storage.place import Place
from keyfold.suite import Suite


def suite_checks(
    job: KeyedJob,
    table: OutputTable,
    suite: Suite,
    translator: KeyfoldTranslator = DEFAULT,
    partitions: Partitions | None = None,
) -> SuiteChecks:
    """Return the checks of a suite on a job's table; they show no value of private columns.

    Args:
        job: the job.
        table: one of its tables.
        suite: the suite.
        translator: names the assets.
        partitions: the table's partitions, of each of which the checks are evaluated.
    """
    return SuiteChecks(
        translator.get_asset_key(table.name),
        suite,
        read_table(job.name, table, translator),
        masked=_masked_columns(job, table.name),
        data_docs=data_docs,
        partitions=partitions and partitions.definition,
        automation_condition=partitions and when_updated(),
    )


_UI_URL = os.environ.get("KEYFOLD_UI_URL")
"""Where `make ui` serves Dagster's pages."""


def read_table(job: str, table: OutputTable, translator: KeyfoldTranslator = DEFAULT) -> Read:
    """Return a function that scans a job's table."""
    name, key = table.name, table.key

    def read(context: dg.AssetCheckExecutionContext, scope: Scope) -> pl.LazyFrame | None:
        lakehouse: Lakehouse = context.resources.keyfold.lakehouse
        path = lakehouse.table(name)
        if scope is Scope.FULL:
            return whole_table(path)
        written = written_batches(last_materialization(context.instance, translator.get_asset_key(name)))
        if written is None:
            return None
        files = files_written(lakehouse, job, name, written.generation, written.since, written.until)
        return None if files is None else rows_written(DeltaTable(str(path)).to_pyarrow_dataset().schema, files, key)

    return read


def read_partition(table: str, partitions: Partitions) -> ReadPartition:
    """Return a function that scans the rows of a partition of a job's table."""

    def read(context: dg.AssetCheckExecutionContext, key: str) -> pl.LazyFrame:
        lakehouse: Lakehouse = context.resources.keyfold.lakehouse
        window = partitions.definition.time_window_for_partition_key(key)
        start, end = (bound.astimezone(UTC) for bound in window)
        return whole_table(lakehouse.table(table)).filter(
            pl.col(partitions.column).is_between(start, end, closed="left")
        )

    return read


def whole_table(path: Place) -> pl.LazyFrame:
    """Scan all rows of a table."""
    table = DeltaTable(str(path))
    # Of other tables, the files alone do not tell the rows: some are deleted, or have values that only the log has.
    is_plain = table.protocol().min_reader_version == 1 and not table.metadata().partition_columns
    return scan_table(path) if is_plain else pl.scan_delta(str(path))


def rows_written(columns: pa.Schema, files: Mapping[int, Sequence[Place]], key: Sequence[str]) -> pl.LazyFrame:
    """Scan the rows that batches wrote; for a table with a key, only the newest row of each key.

    Args:
        columns: the table's schema.
        files: the files, by batch, oldest first.
        key: the key columns of an upsert table; empty for an append table.
    """
    rows = pl.concat([scan_in_columns(paths, columns) for paths in files.values()] or [scan_in_columns((), columns)])
    # The newest of a key is the last.
    return rows.unique(key, keep="last") if key and len(files) > 1 else rows


def _masked_columns(job: KeyedJob, table: str) -> Callable[[dg.AssetCheckExecutionContext], Collection[str]]:
    """Return a function that gives a table's private columns.

    They depend on the live generation's parameters, since a parameter may choose another stream.
    """

    def masked(context: dg.AssetCheckExecutionContext) -> Collection[str]:
        lakehouse: Lakehouse = context.resources.keyfold.lakehouse
        live = configured_job(lakehouse, job)
        schema = next(table_.schema for table_ in live.tables if table_.name == table)
        return live.private_of(schema)

    return masked


def data_docs(context: dg.AssetCheckExecutionContext) -> ResultPages:
    """Return Data Docs in the lakehouse directory; if that is in a bucket, in DAGSTER_HOME, which is on a disk."""
    lakehouse: Lakehouse = context.resources.keyfold.lakehouse
    home = lakehouse.home.local_path or Path(os.environ.get("DAGSTER_HOME") or ".keyfold")
    return ResultPages(home.resolve() / "data_docs", base_url=_UI_URL and f"{_UI_URL.rstrip('/')}/data_docs")
