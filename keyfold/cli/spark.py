"""The Spark of a command: started for it, stopped with it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from keyfold.session import SparkSettings, build_session
from keyfold.session.gateway import JavaEndedError, java_has_ended, py4j_is_quiet
from keyfold.session.interrupts import work_ends_on_interrupt
from keyfold.storage.reachable import check_reachable


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
    # What ends by itself at a signal finishes its batch first.
    is_cut_short = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with py4j_is_quiet():
        try:
            with work_ends_on_interrupt(spark) if is_cut_short else nullcontext():
                yield spark
        except (Py4JError, OSError):
            if not java_has_ended():
                raise
            raise JavaEndedError from None
        finally:
            # Of a Java that has ended there is nothing to stop.
            with suppress(Py4JError, OSError):
                spark.stop()
