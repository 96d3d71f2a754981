"""Spark sessions: started, or found running with the same settings."""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import spark_jobs
from spark_jobs.errors import KeyfoldError
from spark_jobs.session.gateway import launched
from spark_jobs.session.redaction import shown
from spark_jobs.session.scratch import scratch_of_java
from spark_jobs.session.settings import SparkSettings, spark_conf

# A running session shows these otherwise than they were given: they say nothing of a difference.
_REWRITTEN_BY_SPARK = {"spark.sql.warehouse.dir", "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"}


def build_session(settings: SparkSettings | None = None) -> SparkSession:
    """Start the Spark session that the settings describe, or return the running one if it is such a session.

    On a master that is not local, `spark_jobs` is shipped to the workers, whose Python must have the same version and
    the locked packages: this interpreter's path is used there unless PYSPARK_PYTHON or `spark.pyspark.python` is set.

    Raises:
        KeyfoldError: Java is missing or too old, packages cannot be had, Spark refuses a setting, a session with other
            settings runs, or Python prints something when it starts.
    """
    settings = settings or SparkSettings()
    conf = spark_conf(settings)
    running = SparkSession._instantiatedSession
    if running is not None and running._sc._jsc is not None:
        check_same(dict(running.sparkContext.getConf().getAll()), conf)
        return running
    if "SPARK_REMOTE" in os.environ:
        raise KeyfoldError("SPARK_REMOTE asks for Spark Connect, but this session needs a driver of its own: unset it")
    # By the environment: set in the session alone, workers were started with another Python.
    chosen = settings.conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = sys.executable if settings.is_local else chosen or sys.executable
    with _python_that_starts() as python, scratch_of_java(conf), launched(conf):
        _check_silent(python)
        builder = SparkSession.builder.appName(settings.app_name)
        for name, value in conf.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        _read_settings(session)
    if not settings.is_local:
        session.sparkContext.addPyFile(_zipped_package())
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
        raise KeyfoldError(
            "a Spark session with other settings runs already; stop it first, or use another process: "
            + json.dumps(others)
        )


def _python_that_starts() -> subprocess.Popen[bytes]:
    """A Python that starts and ends, while Java takes its seconds to start."""
    return subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def _check_silent(python: subprocess.Popen[bytes]) -> None:
    """See that Python starts without a word.

    Spark's workers tell Java their port by their first four bytes on stdout: what a sitecustomize or a .pth file prints
    would be taken for it, and every job would fail with "Bad data in pyspark.daemon's standard output".
    """
    if printed := python.communicate()[0].decode(errors="replace").strip():
        raise KeyfoldError(
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


def _zipped_package() -> str:
    """The package as a zip for the workers, kept as long as the process: Spark serves the file itself."""
    folder = tempfile.mkdtemp(prefix="keyfold-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = Path(spark_jobs.__file__).parent
    return shutil.make_archive(os.path.join(folder, "spark_jobs"), "zip", package.parent, package.name)
