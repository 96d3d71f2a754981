"""Spark sessions: started, or found running with the same settings."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

from pyspark.sql import SparkSession

from keyfold.errors import Misconfigured
from keyfold.project import current_project
from keyfold.session.gateway import launched
from keyfold.session.redaction import shown
from keyfold.session.scratch import new_scratch, scratch_of_java
from keyfold.session.settings import SparkSettings, spark_conf
from keyfold.session.shipping import zip_packages
from keyfold.session.targets import check_target
from keyfold.session.workers import check_workers, pass_environment

# A running session shows these otherwise than they were given: they say nothing of a difference.
_REWRITTEN_BY_SPARK = {"spark.sql.warehouse.dir", "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"}


def build_session(settings: SparkSettings | None = None) -> SparkSession:
    """Start the Spark session that the settings describe, or return the running one if it is such a session.

    On a cluster, `keyfold`, the project's packages and what else is to be shipped go to the workers as a zip. Their Python must have the same
    version and the locked packages: this interpreter's path is used there unless PYSPARK_PYTHON or `spark.pyspark.python`
    is set.

    Raises:
        KeyfoldError: Java is missing or too old, packages cannot be had, Spark refuses a setting, a session with other
            settings runs, or Python prints something when it starts; the cluster wants more settings, gives no executors,
            or its workers have other versions.

    Example:
        >>> with build_session(SparkSettings(master="local[2]")) as spark:  # doctest: +SKIP
        ...     spark.range(3).count()
        3
    """
    settings = settings or SparkSettings()
    check_target(settings.master, settings.conf)
    conf = spark_conf(settings)
    running = SparkSession._instantiatedSession
    if running is not None and running._sc._jsc is not None:
        check_same(dict(running.sparkContext.getConf().getAll()), conf)
        return running
    # By the environment: set in the session alone, workers were started with another Python.
    chosen = settings.conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = sys.executable if settings.is_local else chosen or sys.executable
    with _python_that_starts() as python, scratch_of_java(conf), launched(conf):
        _check_silent(python)
        builder = SparkSession.builder.appName(settings.app_name)
        for name, value in conf.items():
            builder = builder.config(name, value)
        with _handlers_kept():
            session = builder.getOrCreate()
        _read_settings(session)
    if not settings.is_local:
        try:
            _equip_workers(session, settings)
        except BaseException:
            session.stop()
            raise
    return session


def check_same(there: Mapping[str, str], conf: Mapping[str, str]) -> None:
    """See that a running session's settings are those that are wanted.

    Raises:
        KeyfoldError: some differ; says which.
    """
    others = {
        name: f"{shown(name, there.get(name, 'not set'))} runs, {shown(name, value)} is wanted"
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
    """Keep this process's handler of SIGINT: a new SparkContext replaces it by one that interrupts its caller anywhere.

    Who started the session decides what an interrupt does; `work_ends_on_interrupt` ends Spark's jobs.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        # In another thread, Spark sets none; and one that was set by C code cannot be set again from here.
        if current_thread() is main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def _python_that_starts() -> subprocess.Popen[bytes]:
    """A Python that starts and ends, while Java takes its seconds to start."""
    return subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def _check_silent(python: subprocess.Popen[bytes]) -> None:
    """See that Python starts without a word.

    Spark's workers tell Java their port by their first four bytes on stdout: what a sitecustomize or a .pth file prints
    would be taken for it, and every job would fail with "Bad data in pyspark.daemon's standard output".
    """
    if printed := python.communicate()[0].decode(errors="replace").strip():
        raise Misconfigured(
            f"Python prints {printed[:200]!r} when it starts, and what Spark's workers print first is for Java: have "
            "sitecustomize, usercustomize or the .pth file that does so write to stderr"
        )


def _read_settings(session: SparkSession) -> None:
    """Have Spark read the settings of its SQL, which it else does when a job first needs them."""
    java: Any = session._jsparkSession
    try:
        java.sessionState()
    except Exception:
        session.stop()
        raise


def _equip_workers(session: SparkSession, settings: SparkSettings) -> None:
    """Ship what workers need, and see that they can use it."""
    # In a folder that goes with the process: Spark serves the file itself for as long as executors may come.
    session.sparkContext.addPyFile(
        str(zip_packages(("keyfold", *current_project().packages, *settings.ship), new_scratch()))
    )
    pass_environment(session)
    check_workers(session)
