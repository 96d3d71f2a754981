"""Appends to Delta tables, each once, however often they are tried.

Few rows, as most micro-batches have, are written by the driver itself: Spark's own commit works out the table's whole
state to look up one transaction, which takes most of a second. More rows are written by Spark's tasks.
"""

from pathlib import Path

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame

FEW = 20_000
"""Rows that the driver writes: no more are ever brought there."""

_ROWS_A_FILE = 250_000
"""A task writes so many rows before another one is worth its start."""


def append_once(rows: DataFrame, count: int, table: Path, application: str, version: int) -> None:
    """Append rows, unless the table has taken this version of the application, or a later one, before.

    Args:
        rows: worked out already, or cheap to work out; in the table's columns.
        count: how many they are at most.
        table: an existing Delta table.
        application: names the sequence of versions in the table's log.
        version: grows from one append to the next.
    """
    if count > FEW:
        # A partition becomes a task and a file, and every file costs each later reader.
        writer = rows.coalesce(-(-count // _ROWS_A_FILE)).write.format("delta").mode("append")
        writer.option("txnAppId", application).option("txnVersion", version).save(str(table))
        return
    delta = DeltaTable(str(table))
    taken = delta.transaction_version(application)
    if taken is None or taken < version:
        once = CommitProperties(app_transactions=[Transaction(application, version)])
        write_deltalake(delta, rows.toArrow(), mode="append", commit_properties=once)
