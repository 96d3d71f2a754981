"""The Spark of a command: started for it, stopped with it."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_jobs.session import SparkSettings, build_session


@contextmanager
def spark_of_environment() -> Iterator[SparkSession]:
    """A session as the environment's `KEYFOLD_SPARK_…` say.

    Raises:
        KeyfoldError: a setting is wrong, or Spark does not start.
    """
    spark = build_session(SparkSettings.from_environment())
    try:
        yield spark
    finally:
        spark.stop()
