"""Start Spark for a command, and stop it when the command ends."""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from keyfold.session import SparkSettings, build_session
from keyfold.session.gateway import JavaEndedError, java_has_ended, py4j_is_quiet
from keyfold.session.interrupts import work_ends_on_interrupt
from keyfold.storage.reachable import check_reachable


@contextmanager
def spark_of_environment(*places: object) -> Iterator[SparkSession]:
    """Start a session with the `KEYFOLD_SPARK_…` settings of the environment.

    Args:
        places: what the session reads and writes, the lakehouse first. A bucket needs more Java libraries, and is checked
            before the seconds that Spark takes to start.

    Raises:
        KeyfoldError: a setting is wrong, a bucket cannot be reached, Spark does not start, or its Java process ends.
    """
    settings = SparkSettings.from_environment()
    for place in places:
        settings = settings.for_home(place)
        check_reachable(place)
    spark = build_session(settings)
    # A command with its own signal handler stops by itself, after its batch; its Spark work must not be cancelled.
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
            # If Java has ended, nothing is left to stop.
            with suppress(Py4JError, OSError):
                spark.stop()


@contextmanager
def when_needed(start: Callable[[], AbstractContextManager[SparkSession]], *places: object) -> Iterator[SparkSession]:
    """Start a session when it is first used, for a command that often does without: Spark takes seconds to start.

    Args:
        start: starts the session, and stops it at the end (`spark_of_environment`).
        places: what the command reads and writes. These and the settings are checked at once.

    Raises:
        KeyfoldError: as `spark_of_environment`.
    """
    SparkSettings.from_environment()
    for place in places:
        check_reachable(place)
    with ExitStack() as running:
        yield cast("SparkSession", _WhenNeeded(lambda: running.enter_context(start())))


class _WhenNeeded:
    """Stands for a session until an attribute of it is used."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self._session: SparkSession | None = None

    def __getattr__(self, name: str) -> Any:
        if self._session is None:
            self._session = self._start()
        return getattr(self._session, name)
