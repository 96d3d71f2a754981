"""The Spark of a command: started for it, stopped with it."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_jobs.objects.reachable import check_reachable
from spark_jobs.session import SparkSettings, build_session


@contextmanager
def spark_of_environment(*places: object) -> Iterator[SparkSession]:
    """A session as the environment's `KEYFOLD_SPARK_…` say.

    Args:
        places: what it reads and writes, the home first: those in buckets want more of Java, and are looked at before
            seconds go into starting it.

    Raises:
        KeyfoldError: a setting is wrong, a bucket is not reached, or Spark does not start.
    """
    settings = SparkSettings.from_environment()
    for place in places:
        settings = settings.for_home(place)
        check_reachable(place)
    spark = build_session(settings)
    try:
        yield spark
    finally:
        spark.stop()
