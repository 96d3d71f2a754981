"""Start a Spark session for a run, or use the running one if its settings are the same, and stop it when the run ends."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from keyfold.errors import Misconfigured, Unreachable
from keyfold.project import project_packages
from keyfold.session.gateway import JavaEndedError, java_has_ended, launched, py4j_is_quiet
from keyfold.session.interrupts import work_ends_on_interrupt
from keyfold.session.redaction import shown
from keyfold.session.scratch import new_scratch, scratch_of_java
from keyfold.session.settings import SparkSettings, connect_conf, spark_conf
from keyfold.session.shipping import zip_packages
from keyfold.session.targets import check_target
from keyfold.session.workers import check_workers, pass_environment

# Spark changes these values, so a running session's differ from those that it was given.
_REWRITTEN_BY_SPARK = {"spark.sql.warehouse.dir", "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"}


def build_session(settings: SparkSettings | None = None) -> SparkSession:
    """Start a Spark session with the settings, or return the running one if it has them.

    On a cluster, `keyfold`, the project's packages and those in `ship` are sent to the workers as a zip. The workers' Python
    must have the same version and the locked packages. It is found at this interpreter's path unless PYSPARK_PYTHON or
    `spark.pyspark.python` is set.

    Raises:
        KeyfoldError: Java is missing or too old, packages cannot be fetched, Spark refuses a setting, or a session with
            other settings runs. On a cluster: settings are missing, it gives no executors, or its workers have other versions.

    Example:
        >>> with build_session(SparkSettings(master="local[2]")) as spark:  # doctest: +SKIP
        ...     spark.range(3).count()
        3
    """
    settings = settings or SparkSettings()
    check_target(settings.master, settings.conf)
    if settings.is_connect:
        return _connected(settings)
    conf = spark_conf(settings)
    running = SparkSession._instantiatedSession
    if running is not None and is_running():
        check_same(dict(running.sparkContext.getConf().getAll()), conf)
        return running
    # In the environment: with the session's setting alone, workers start with another Python.
    chosen = settings.conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = sys.executable if settings.is_local else chosen or sys.executable
    with scratch_of_java(conf), launched(conf):
        builder = SparkSession.builder.appName(settings.app_name)
        for name, value in conf.items():
            builder = builder.config(name, value)
        with _handlers_kept():
            session = builder.getOrCreate()
        _read_settings(session)
    if not settings.is_local:
        try:
            _equip_workers(session, settings)
        # Also after an interrupt: the next call would take a session that is not equipped for a running one.
        except BaseException:
            session.stop()
            raise
    return session


def _connected(settings: SparkSettings) -> SparkSession:
    """Connect to a server of Spark Connect, and send it the packages that its workers need."""
    builder = SparkSession.builder.remote(settings.master).appName(settings.app_name)
    for name, value in connect_conf(settings).items():
        builder = builder.config(name, value)
    try:
        session = builder.create()
        session.addArtifacts(str(_packed(settings)), pyfile=True)
    except (PySparkException, ImportError) as error:
        raise Unreachable(
            f"{settings.master} cannot be used: {error}; it takes a server of Spark Connect there, and here the packages of "
            "`pip install pyspark[connect]`"
        ) from None
    return session


def _packed(settings: SparkSettings) -> Path:
    """Return a zip of `keyfold` and the packages that workers need."""
    # In a folder that lasts as long as the process: Spark serves the file to executors that start later.
    return zip_packages(("keyfold", *project_packages(), *settings.ship), new_scratch())


def is_running() -> bool:
    """Whether this process has a running session."""
    # A private attribute: this process's session, whichever thread has started it.
    running = SparkSession._instantiatedSession
    return running is not None and running._sc._jsc is not None


def check_same(there: Mapping[str, str], conf: Mapping[str, str]) -> None:
    """Check that a running session has the requested settings.

    Args:
        there: the running session's settings.
        conf: the requested settings.

    Raises:
        KeyfoldError: some differ; the message says which.
    """
    others = {
        name: f"{shown(name, there.get(name, 'not set'))} is running, {shown(name, value)} is requested"
        for name, value in conf.items()
        if name not in _REWRITTEN_BY_SPARK and there.get(name) != value
    }
    if others:
        raise Misconfigured(
            "a Spark session with other settings runs already; stop it first, or use another process: "
            + json.dumps(others)
        )


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Keep this process's SIGINT handler, which a new SparkContext replaces.

    The caller decides what an interrupt does. `work_ends_on_interrupt` cancels Spark's jobs.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        # In other threads, Spark sets no handler. A handler set by C code (None here) cannot be restored.
        if current_thread() is main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def _read_settings(session: SparkSession) -> None:
    """Make Spark read its SQL settings now, so that errors in them show here and not at the first job."""
    java: Any = session._jsparkSession
    try:
        java.sessionState()
    except (Py4JError, PySparkException):
        session.stop()
        raise


def _equip_workers(session: SparkSession, settings: SparkSettings) -> None:
    """Ship packages and variables to the workers, and check that they can use them."""
    session.sparkContext.addPyFile(str(_packed(settings)))
    pass_environment(session)
    check_workers(session)


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
