"""Read Delta tables as Spark DataFrames from file lists that Python reads: Spark takes seconds to read a Delta log."""

import json
import re
from urllib.parse import unquote

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from keyfold.storage.place import Place

_MOST_FILES = 1_000


def table_frame(spark: SparkSession, path: Place, version: int | None = None) -> DataFrame:
    """Return the rows of a Delta table, now or at a version. Later commits do not change the DataFrame."""
    table = DeltaTable(str(path), version=version)
    # By version: Spark opens the table later, when it may have newer ones.
    if not _is_plain(table, path):
        return spark.read.format("delta").option("versionAsOf", table.version()).load(str(path))
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = [str(path / unquote(name)) for name in table.get_add_actions()["path"].to_pylist()]
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)


def _is_plain(table: DeltaTable, path: Place) -> bool:
    """Whether reading the table's files as plain Parquet gives its rows, and the files are few enough to list."""
    return (
        # From version 2 on, columns may have other names in the files, and files may hold deleted rows.
        table.protocol().min_reader_version == 1
        # Only the log has the values of partition columns.
        and not table.metadata().partition_columns
        and table.get_add_actions().num_rows <= _MOST_FILES
        # Spark reads these characters in a path as a pattern.
        and not re.search(r"[*?{}\[\]\\]", str(path))
    )
