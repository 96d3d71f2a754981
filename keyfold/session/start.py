"""Start a Spark session: for the command line and `KeyfoldResource`, which have none of a caller's.

Spark's Java process, its temporary files and its output are PySpark's: Java ends when this process does.
"""

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from keyfold.errors import KeyfoldError, Misconfigured, Unreachable
from keyfold.secret_settings import is_secret, without_secrets
from keyfold.session.interrupts import cancel_when_interrupted, in_thread
from keyfold.session.shipping import packed, ship
from keyfold.session.spark_settings import SparkSettings, spark_conf

_OLDEST_JAVA = 17
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SECONDS_TO_END = 20

_NEEDED_AT_START = re.compile(
    r"spark\.(master$|driver\.|jars|files$|archives$|submit\.|kerberos\.|log\.|hadoop\.fs\.defaultFS$)"
)
"""Settings that `spark-submit` and Java read themselves, before there is a connection over which they could be sent."""

_lock = RLock()
_java: subprocess.Popen[bytes] | None = None
_started: tuple[SparkSession, SparkSettings] | None = None


def build_session(settings: SparkSettings | None = None) -> SparkSession:
    """Start a Spark session with the settings, or return the running one if it has them.

    On a cluster, `keyfold`, the project's packages and those in `ship` are sent to the workers as a zip. The workers' Python
    must have the same version and the locked packages. It is found at this interpreter's path unless PYSPARK_PYTHON or
    `spark.pyspark.python` is set.

    Raises:
        KeyfoldError: Java is missing or too old, Spark refuses a setting, or a session with other settings runs.

    Example:
        >>> with build_session(SparkSettings(master="local[2]")) as spark:  # doctest: +SKIP
        ...     spark.range(3).count()
        3
    """
    settings = settings or SparkSettings()
    # In a thread, where Spark leaves this process's handler of SIGINT as it is.
    return _connected(settings) if settings.is_connect else in_thread(lambda: _running_or_started(settings))


def enter_session(settings: SparkSettings) -> tuple[SparkSession, bool]:
    """Return this process's session, and whether it was started by this call, so that the caller ends it by `stop_session`.

    Raises:
        KeyfoldError: as `build_session`.
    """
    with _lock:
        is_new = settings.is_connect or _running() is None
        session = build_session(settings)
    if is_new and not settings.is_connect:
        cancel_when_interrupted(session)
    return session, is_new


def stop_session(session: SparkSession) -> None:
    """Stop a session, whatever became of earlier calls: in a thread, as an interrupted one leaves its answer in this thread's
    connection.
    """

    def stop() -> None:
        # If Java has ended, nothing is left to stop.
        with suppress(Exception):
            session.stop()

    in_thread(stop)


def check_installed_java() -> None:
    """Check the Java that Spark will use: that of JAVA_HOME, else the first on PATH.

    Raises:
        KeyfoldError: there is no Java, it does not run, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    place = f"JAVA_HOME={home}" if home else "PATH"
    remedy = "install a Java 17 or 21 runtime (`make setup` tries to), or point JAVA_HOME to one"
    if java is None or not os.path.exists(java):
        raise Misconfigured(f"Spark needs Java, and {place} has none: {remedy}")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    # Java 8 and older call themselves 1.8 and so on.
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if answer.returncode != 0 or version is None:
        raise Misconfigured(f"{java}, from {place}, does not run ({answer.stderr.strip()[:200]}): {remedy}")
    if int(version[1]) < _OLDEST_JAVA:
        raise Misconfigured(f"{java}, from {place}, is Java {version[1]}, too old for Spark: {remedy}")


def check_same(running: SparkSettings | None, settings: SparkSettings) -> None:
    """Check that a running session has the requested settings; it may have more.

    Args:
        running: its settings; None if it was not started here.
        settings: the requested settings.

    Raises:
        Misconfigured: some differ; the message names them, and no value, which may be a secret.
    """
    conf, wanted = spark_conf(running) if running else {}, spark_conf(settings)
    names = sorted(name for name, value in wanted.items() if conf.get(name) != value)
    if not names:
        return
    others = f"with other settings ({', '.join(names)})" if running else "that Keyfold has not started"
    raise Misconfigured(
        f'a Spark session {others} runs already; use it by Runners("spark", session), stop it first, or use another process'
    )


def _running() -> SparkSession | None:
    # Private attributes: this process's session, whichever thread has started it.
    running = SparkSession._instantiatedSession
    return running if running is not None and running._sc._jsc is not None else None


def _running_or_started(settings: SparkSettings) -> SparkSession:
    global _started  # noqa: PLW0603 - one session a process, as PySpark has it
    if (running := _running()) is not None:
        check_same(_started[1] if _started and _started[0] is running else None, settings)
        return running
    # Java reads some settings at its start, so each session has one of its own.
    _end_java()
    conf = spark_conf(settings)
    try:
        _launch_java(conf)
        builder = SparkSession.builder.appName(settings.app_name)
        for name, value in conf.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        # Spark reads its SQL settings now, so that errors in them show here and not at the first job.
        of_java: Any = session._jsparkSession
        of_java.sessionState()
        if not settings.is_local:
            ship(session, settings.ship)
    except (Py4JError, PySparkException) as error:
        # Without Java's frames; before Java ends, which has the text.
        reason = "; ".join(line for line in str(error).splitlines() if line.strip() and not line.startswith("\tat "))
        _end_java()
        raise KeyfoldError(f"Spark did not start: {without_secrets(reason, conf)}") from None
    except BaseException:
        _end_java()
        raise
    _started = session, settings
    return session


def _launch_java(conf: Mapping[str, str]) -> None:
    """Launch Spark's Java process with the settings that its start needs: any user can read a command line.

    All others, which may be secrets whatever their names are, reach Spark over PySpark's connection.
    """
    global _java  # noqa: PLW0603 - one Java a process, as PySpark has it
    check_installed_java()
    # At DEBUG, py4j logs all that it sends to Java, which includes secrets; at ERROR, what the exception says again.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if conf["spark.master"].startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        # In the environment: with the session's setting alone, workers start with another Python.
        os.environ.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python", sys.executable))
    options = conf.get(_JAVA_OPTIONS, "")
    if "log4j2.configurationFile" not in options:
        options += f" -Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    needed = {
        name: value for name, value in conf.items() if _NEEDED_AT_START.match(name) and not is_secret(name, value)
    }
    launched = SparkConf(loadDefaults=False).setAll([*(needed | {_JAVA_OPTIONS: options.strip()}).items()])
    # A program may read our stdout. In a session of its own: a signal to our process group, from a shell or `timeout`, must not end
    # Java, which is needed to finish the batch.
    gateway: Any = launch_gateway(launched, {"stdout": 2, "start_new_session": True})
    _java = gateway.proc
    # A private interface of PySpark: the session that is built next uses this gateway.
    SparkContext._ensure_initialized(gateway=gateway)


def _end_java() -> None:
    """End the Java process of an earlier session; one of `spark-submit` is our parent and stays."""
    global _java, _started  # noqa: PLW0603 - as in `_launch_java`
    if _java is None:
        return
    if (context := SparkContext._active_spark_context) is not None:
        with suppress(Exception):
            context.stop()
    if (gateway := SparkContext._gateway) is not None:
        # So that objects of Java that Python frees from now on are not looked for there, which py4j would log with a traceback.
        with suppress(Exception):
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    if _java.stdin is not None:
        _java.stdin.close()
    try:
        _java.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        _java.kill()
        _java.wait()
    _java = _started = None


def _connected(settings: SparkSettings) -> SparkSession:
    """Connect to a server of Spark Connect, and send it the packages that its workers need."""
    builder = SparkSession.builder.remote(settings.master).appName(settings.app_name)
    for name, value in spark_conf(settings).items():
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
