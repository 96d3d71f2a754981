"""Commits of files that somebody else wrote: each batch of an application reaches a table once, however often it is tried.

What names a batch is Delta's own transaction record, (application, number): a table that has taken a number, or a later
one, takes it no more. The log entry is made durable before whoever committed goes on.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import SparkSession

from spark_jobs.errors import KeyfoldError
from spark_jobs.lakehouse.changes import DataFile
from spark_jobs.lakehouse.data_files import WrittenFile, read_data_files
from spark_jobs.lakehouse.files import sync_file, sync_folder
from spark_jobs.objects.lease import check_held
from spark_jobs.objects.place import Place

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""For what is done beside runs: checkpoints of the log and its clean-up come with the tables' own commits."""

_FEW_ROWS = 200_000
_SMALL_TABLE = 256 << 20
"""A merge of few rows into a small table needs no Spark: it is done in this process, in a tenth of the time."""


def committed_batch(table: Place, application: str) -> int | None:
    """The newest batch of an application that a table has taken, None before the first."""
    return DeltaTable(str(table)).transaction_version(application)


def append_files(table: Place, files: Sequence[WrittenFile], application: str, batch: int) -> None:
    """Append written files to a table, unless it has taken this batch before.

    Args:
        table: an existing Delta table.
        files: in its folder; none makes no commit.
        application: names the sequence of batches in the table's log.
        batch: grows from one commit to the next.
    """
    if not files:
        return
    delta = DeltaTable(str(table))
    if _has_taken(delta, application, batch):
        return
    now = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        AddAction(file.path, file.bytes, {}, now, True, statistics_of(file.rows, file.first, file.last))
        for file in files
    ]
    with _taken_once(table, application, batch):
        delta.create_write_transaction(
            actions, mode="append", schema=delta.schema(), commit_properties=_once(application, batch)
        )
    _make_durable(delta, table)


def merge_files(
    spark: SparkSession,
    table: Place,
    files: Sequence[WrittenFile],
    key: Sequence[str],
    application: str,
    batch: int,
) -> None:
    """Put the rows of staged files in the place of those of the same key, unless the table has taken this batch before.

    Args:
        spark: merges what is too much for this process.
        table: an existing Delta table.
        files: staged in its folder; none makes no commit.
        key: columns of which the table has one row each; never NULL, and no two rows of the files agree in them.
        application: names the sequence of batches in the table's log.
        batch: grows from one commit to the next.
    """
    delta = DeltaTable(str(table))
    if not files or _has_taken(delta, application, batch):
        return
    same_key = " AND ".join(f"kept.`{column}` = new.`{column}`" for column in key)
    if sum(file.rows for file in files) <= _FEW_ROWS and _bytes(delta) <= _SMALL_TABLE:
        merger = delta.merge(
            read_data_files(table, files).to_arrow(),
            same_key,
            source_alias="new",
            target_alias="kept",
            commit_properties=_once(application, batch),
        )
        with _taken_once(table, application, batch):
            merger.when_matched_update_all().when_not_matched_insert_all().execute()
    else:
        _merge_by_spark(spark, table, files, same_key, application, batch)
    _make_durable(delta, table)


def replace_files(table: Place, gone: Sequence[DataFile], files: Sequence[WrittenFile]) -> None:
    """Put written files in the place of others that hold the same rows: who reads the table's additions sees nothing new.

    Args:
        table: an existing Delta table.
        gone: files that it consists of; they stay on disk.
        files: in its folder, with the rows of those.

    Raises:
        KeyfoldError: the files do not have as many rows, or another process has replaced some of those; nothing is done.
    """
    delta = DeltaTable(str(table))
    # Delta's log has paths as URLs: a blank in a partition or a name is %20 there.
    there = {unquote(path) for path in delta.get_add_actions()["path"].to_pylist()}
    if not there.issuperset(file.path for file in gone):
        raise KeyfoldError(
            f"{table}: another process has replaced some of its files meanwhile; let one at a time do so"
        )
    before, after = sum(file.rows for file in gone), sum(file.rows for file in files)
    if before != after:
        raise KeyfoldError(
            f"{table}: {before:,} rows became {after:,} as files were joined; they are left as they were"
        )
    now = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        AddAction(file.path, file.bytes, {}, now, False, statistics_of(file.rows, file.first, file.last))
        for file in files
    ]
    actions += [RemoveAction(file.path, False, now, file.bytes, {}) for file in gone]
    properties = CommitProperties(custom_metadata={"keyfold": "files joined"})
    check_held()
    delta.create_write_transaction(
        actions, mode="append", schema=delta.schema(), commit_properties=properties, post_commithook_properties=NO_HOOKS
    )
    _make_durable(delta, table)


def _merge_by_spark(
    spark: SparkSession, table: Place, files: Sequence[WrittenFile], same_key: str, application: str, batch: int
) -> None:
    from delta.tables import DeltaTable as SparkTable  # noqa: PLC0415 - needs a session with Delta's jar

    settings = {
        "spark.databricks.delta.write.txnAppId": application,
        "spark.databricks.delta.write.txnVersion": str(batch),
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        rows = spark.read.parquet(*(str(table / file.path) for file in files))
        merge = SparkTable.forPath(spark, str(table)).alias("kept").merge(rows.alias("new"), same_key)
        # Spark writes a table's log as if nobody else did.
        check_held()
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    finally:
        for name in settings:
            # The session is others' too: their next write would pass for this batch, and be skipped.
            spark.conf.unset(name)


@contextmanager
def _taken_once(table: Place, application: str, batch: int) -> Iterator[None]:
    """A commit that another run may make too, of the same done record, where this one has lost its lease."""
    check_held()
    try:
        yield
    except CommitFailedError as error:
        if not _has_taken(DeltaTable(str(table)), application, batch):
            raise KeyfoldError(
                f"{table}: another process has written to it at the same time, and batch {batch} was not committed "
                f"({error}); run again"
            ) from None


def _has_taken(delta: DeltaTable, application: str, batch: int) -> bool:
    taken = delta.transaction_version(application)
    return taken is not None and taken >= batch


def _once(application: str, batch: int) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(application, batch)])


def statistics_of(rows: int, first: Mapping[str, str], last: Mapping[str, str]) -> str:
    """A data file's statistics as Delta's log has them."""
    return json.dumps({"numRecords": rows, "minValues": first, "maxValues": last, "nullCount": {}})


def _bytes(delta: DeltaTable) -> int:
    sizes = delta.get_add_actions(flatten=True)["size_bytes"].to_pylist()
    return sum(sizes)


def _make_durable(delta: DeltaTable, table: Place) -> None:
    """A log entry that a power cut takes away would be one that the journal counts on."""
    delta.update_incremental()
    log = table / "_delta_log"
    sync_file(log / f"{delta.version():020d}.json")
    sync_folder(log)
