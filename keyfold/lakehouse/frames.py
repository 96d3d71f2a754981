"""Delta tables as Spark frames, planned from the log without Spark: Spark takes seconds of Java's time to read a log."""

import json
import re
from urllib.parse import unquote

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from keyfold.storage.place import Place

_MOST_FILES = 1_000


def table_frame(spark: SparkSession, path: Place, version: int | None = None) -> DataFrame:
    """The rows that a Delta table has now, or had at a version, as a frame; later commits do not change it."""
    table = DeltaTable(str(path), version=version)
    if not _is_plain(table, path):
        return spark.read.format("delta").option("versionAsOf", table.version()).load(str(path))
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = [str(path / unquote(name)) for name in table.get_add_actions()["path"].to_pylist()]
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)


def _is_plain(table: DeltaTable, path: Place) -> bool:
    """Whether a table's rows are those of its files, as they stand, and few enough files to name each."""
    return (
        # From version 2 on columns may have other names in the files, and rows may be deleted that still stand there.
        table.protocol().min_reader_version == 1
        # Values of these stand in the log alone.
        and not table.metadata().partition_columns
        and table.get_add_actions().num_rows <= _MOST_FILES
        # Spark takes a file's path for a pattern.
        and not re.search(r"[*?{}\[\]\\]", str(path))
    )
