"""Start a Spark session: for the command line and for `KeyfoldResource`, which have none of a caller's.

A session that was started here ends with the last of its users that says so, or with this process. No finalizer ends it: when objects
are collected, another user may still need it, or Python may be shutting down.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from threading import Lock
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from keyfold.errors import Misconfigured, Unreachable
from keyfold.session.calling import in_thread
from keyfold.session.interrupts import cancel_when_interrupted
from keyfold.session.java import FIXED_AT_LAUNCH, Java
from keyfold.session.redaction import shown
from keyfold.session.spark_settings import SparkSettings, connect_conf, spark_conf
from keyfold.session.targets import check_target
from keyfold.session.workers import equip_workers, packed

# Spark changes these values, so a running session's differ from those that it was given.
_REWRITTEN_BY_SPARK = {"spark.sql.warehouse.dir", "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"}

_lock = Lock()
_java: Java | None = None


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
    # In a thread, where Spark leaves this process's handler of SIGINT as it is.
    return in_thread(lambda: _started(settings))


class SharedSessions:
    """The sessions that `Runners` of this process use: the last that leaves a session stops it, if it was started here."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users: dict[SparkSession, int] = {}

    def enter(self, settings: SparkSettings) -> SparkSession:
        """Return the session of this process, which is started if there is none; one of Spark Connect is the user's alone.

        Raises:
            KeyfoldError: as `build_session`.
        """
        with self._lock:
            is_ours = settings.is_connect or _running() is None
            session = build_session(settings)
            if is_ours or session in self._users:
                self._users[session] = self._users.get(session, 0) + 1
            if is_ours and not settings.is_connect:
                cancel_when_interrupted(session)
            return session

    def leave(self, session: SparkSession) -> None:
        """Give a session back, and stop it if nobody else uses it."""
        with self._lock:
            if session not in self._users:
                return  # somebody else's, who called `build_session`
            self._users[session] -= 1
            if not self._users[session]:
                del self._users[session]
                _stop(session)


SHARED = SharedSessions()


def _stop(session: SparkSession) -> None:
    """Stop a session whatever became of earlier calls: in a thread, since an interrupted one leaves its answer in this thread's
    connection.
    """

    def end() -> None:
        # If Java has ended, nothing is left to stop.
        with suppress(Exception):
            session.stop()

    in_thread(end)


def check_same(running: Mapping[str, str], conf: Mapping[str, str]) -> None:
    """Check that a running session has the requested settings.

    Args:
        running: the running session's settings.
        conf: the requested settings.

    Raises:
        KeyfoldError: some differ; the message says which.
    """
    others = {
        name: f"{shown(name, running.get(name, 'not set'))} is running, {shown(name, value)} is requested"
        for name, value in conf.items()
        if name not in _REWRITTEN_BY_SPARK and running.get(name) != value
    }
    if others:
        raise Misconfigured(
            'a Spark session with other settings runs already; use it by Runners("spark", session), stop it first, or use another '
            "process: " + json.dumps(others)
        )


def _running() -> SparkSession | None:
    # Private attributes: this process's session, whichever thread has started it.
    running = SparkSession._instantiatedSession
    return running if running is not None and running._sc._jsc is not None else None


def _started(settings: SparkSettings) -> SparkSession:
    with _lock:
        conf = spark_conf(settings)
        if (running := _running()) is not None:
            check_same(dict(running.sparkContext.getConf().getAll()), conf)
            return running
        # In the environment: with the session's setting alone, workers start with another Python.
        chosen = settings.conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        os.environ["PYSPARK_PYTHON"] = sys.executable if settings.is_local else chosen or sys.executable
        java = _java_with(conf)
        with java.starting_session() if java else nullcontext():
            builder = SparkSession.builder.appName(settings.app_name)
            for name, value in conf.items():
                builder = builder.config(name, value)
            session = builder.getOrCreate()
            try:
                # Spark reads its SQL settings now, so that errors in them show here and not at the first job.
                of_java: Any = session._jsparkSession
                of_java.sessionState()
                if not settings.is_local:
                    equip_workers(session, settings)
            except BaseException:
                session.stop()
                raise
            return session


def _java_with(conf: Mapping[str, str]) -> Java | None:
    """Return this process's Java, which is started if there is none; None if somebody else has started it."""
    global _java  # noqa: PLW0603 - one Java a process, as PySpark has it
    if SparkContext._gateway is None:
        _java = Java(conf)
    elif _java is not None and not _java.is_of_spark_submit:
        for name in FIXED_AT_LAUNCH:
            there = _java.conf.get(name, "not set")
            if there != conf.get(name, "not set"):
                raise Misconfigured(
                    f"this process's Spark was started with {name}={shown(name, there)} and cannot change to "
                    f"{shown(name, conf.get(name, 'not set'))}: start a new process"
                )
    return _java


def _connected(settings: SparkSettings) -> SparkSession:
    """Connect to a server of Spark Connect, and send it the packages that its workers need."""
    builder = SparkSession.builder.remote(settings.master).appName(settings.app_name)
    for name, value in connect_conf(settings).items():
        builder = builder.config(name, value)
    try:
        session = builder.create()
        session.addArtifacts(str(packed(settings.ship)), pyfile=True)
    except (PySparkException, ImportError) as error:
        raise Unreachable(
            f"{settings.master} cannot be used: {error}; it takes a server of Spark Connect there, and here the packages of "
            "`pip install 'pyspark[connect]'`"
        ) from None
    return session
