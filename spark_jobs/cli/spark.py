"""The Spark of a command: started for it, stopped with it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark_jobs.objects.reachable import check_reachable
from spark_jobs.session import SparkSettings, build_session
from spark_jobs.session.gateway import JavaEndedError, java_has_ended


@contextmanager
def spark_of_environment(*places: object) -> Iterator[SparkSession]:
    """A session as the environment's `KEYFOLD_SPARK_…` say.

    Args:
        places: what it reads and writes, the home first: those in buckets want more of Java, and are looked at before
            seconds go into starting it.

    Raises:
        KeyfoldError: a setting is wrong, a bucket is not reached, Spark does not start, or its Java ends meanwhile.
    """
    settings = SparkSettings.from_environment()
    for place in places:
        settings = settings.for_home(place)
        check_reachable(place)
    spark = build_session(settings)
    try:
        yield spark
    except (Py4JError, OSError):
        if not java_has_ended():
            raise
        raise JavaEndedError from None
    finally:
        # Of a Java that has ended there is nothing to stop.
        with suppress(Py4JError, OSError):
            spark.stop()
