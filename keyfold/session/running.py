"""Start a Spark session for a run, and stop it when the run ends."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from keyfold.session.gateway import JavaEndedError, java_has_ended, py4j_is_quiet
from keyfold.session.interrupts import work_ends_on_interrupt
from keyfold.session.settings import SparkSettings
from keyfold.session.start import build_session, is_running


@contextmanager
def running_session(settings: SparkSettings) -> Iterator[SparkSession]:
    """Start a session, or use the running one of this process, which is not stopped at the end.

    Raises:
        KeyfoldError: a setting is wrong, Spark does not start, or its Java process ends.
    """
    if settings.is_connect:
        session = build_session(settings)
        try:
            yield session
        finally:
            session.stop()
        return
    was_running = is_running()
    session = build_session(settings)
    with py4j_is_quiet():
        try:
            with work_ends_on_interrupt(session):
                yield session
        except (Py4JError, OSError):
            if not java_has_ended():
                raise
            raise JavaEndedError from None
        finally:
            if not was_running:
                _stop(session)


def _stop(session: SparkSession) -> None:
    def stop() -> None:
        # If Java has ended, nothing is left to stop.
        with suppress(Py4JError, OSError):
            session.stop()

    # An interrupt may have cut off a call to Java, after which this thread's connection answers one call late. Another thread has
    # its own connection.
    stopper = Thread(target=stop, name="stop-spark")
    stopper.start()
    stopper.join()
