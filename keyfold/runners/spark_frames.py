"""Read data files of a table as a frame of Spark, for programs that go on with Spark."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from keyfold.storage.place import Place


def read_parquet(session: SparkSession, files: Sequence[Place], schema: pa.Schema) -> DataFrame:
    """Return the rows of Parquet files as a Spark frame with these columns; a column that a file lacks is NULL.

    Files in a bucket need the settings and packages with which Spark itself opens it.
    """
    columns = from_arrow_schema(schema)
    if not files:
        return session.createDataFrame([], columns)
    return session.read.schema(columns).parquet(*(file.as_uri() for file in files))
