"""Find, check and start the Java process behind a Spark session. Its output is shown only if it fails."""

import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from keyfold.errors import KeyfoldError, Misconfigured, Unreachable
from keyfold.session.interrupts import signals_kept_waiting
from keyfold.session.java_output import JavaOutput, explained
from keyfold.session.redaction import shown, without_secrets

OLDEST_JAVA = 17

FIXED_AT_LAUNCH = ("spark.driver.memory", "spark.jars.packages")
"""Settings that Java reads at its start. A later session in the same process cannot change them."""


class JavaEndedError(Unreachable):
    """The Java process that this process started has ended."""

    def __init__(self) -> None:
        super().__init__(
            "Spark's Java process has ended: somebody killed it, or the machine ran out of memory. Committed batches stay, and "
            "nothing is lost: run it again"
        )


def check_installed_java() -> None:
    """Check the Java that Spark will use: that of JAVA_HOME, else the first on PATH.

    Raises:
        KeyfoldError: there is no Java, it does not run, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    where = f"JAVA_HOME={home}" if home else "PATH"
    remedy = "install a Java 17 or 21 runtime (`make setup` tries to), or point JAVA_HOME to one"
    if java is None or not os.path.exists(java):
        raise Misconfigured(f"Spark needs Java, and {where} has none: {remedy}")
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    text = done.stderr + done.stdout
    version = _version_in(text)
    if done.returncode != 0 or version is None:
        raise Misconfigured(f"{java}, from {where}, does not run ({done.stderr.strip()[:200]}): {remedy}")
    if version < OLDEST_JAVA:
        raise Misconfigured(f"{java}, from {where}, is Java {version}, too old for Spark: {remedy}")


def _version_in(text: str) -> int | None:
    # Java 8 and older call themselves 1.8 and so on.
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


@contextmanager
def launched(conf: Mapping[str, str]) -> Iterator[None]:
    """Start the Java process with the Spark settings, or check that the running one was started with the same.

    Create the session within the context. Java's output during start and within the context (a report on each package,
    warnings) is shown only on failure.

    Raises:
        KeyfoldError: Java is missing or too old, packages cannot be fetched, the process ends at once, the running one has
            other memory or packages, or Spark refuses a setting.
    """
    if SparkContext._gateway is not None:
        _check_launched(conf)
        with _plain_errors(conf):
            yield
        return
    check_installed_java()
    # At DEBUG, py4j logs all that it sends to Java, which includes secret settings.
    log = logging.getLogger("py4j")
    log.setLevel(max(logging.INFO, log.getEffectiveLevel()))
    messages = JavaOutput()
    with _submitted(_quietly_logged(conf)):
        try:
            # stdout too: Java prints some errors there, and a program may read our stdout.
            # In its own session: a signal to our process group (from a shell, from `timeout`) must not end Java, which we need
            # to finish the batch. Java ends when this process ends, however that happens.
            settings = {"stdout": messages.pipe, "stderr": messages.pipe, "start_new_session": True}
            with signals_kept_waiting():
                gateway: Any = launch_gateway(None, settings)
        except PySparkRuntimeError:
            raise KeyfoldError(without_secrets(explained(messages.until_the_end()), conf)) from None
    messages.forget()
    # A private interface of PySpark: sessions that are created later use this gateway.
    SparkContext._ensure_initialized(gateway=gateway)
    try:
        with _plain_errors(conf):
            yield
    except BaseException:
        lines = messages.pass_on()
        # Under spark-submit, Java is this process's parent, and the gateway has no process.
        if (java := getattr(gateway, "proc", None)) is not None and SparkContext._active_spark_context is None:
            has_ended = _has_ended(java)
            # Java keeps the settings of its start, also a refused one: the next session of this process needs another.
            gateway.shutdown()
            java.kill()
            java.wait()
            SparkContext._gateway = SparkContext._jvm = None
            if has_ended:
                raise KeyfoldError(without_secrets(explained(lines), conf)) from None
        raise
    for line in messages.pass_on():
        os.write(2, f"{line}\n".encode())


@contextmanager
def _plain_errors(conf: Mapping[str, str]) -> Iterator[None]:
    try:
        with py4j_is_quiet():
            yield
    except (Py4JError, PySparkException) as error:
        raise KeyfoldError(f"Spark did not start: {without_secrets(_reason(error), conf)}") from None


@contextmanager
def py4j_is_quiet() -> Iterator[None]:
    """Suppress the stack trace that py4j logs when a call to Java is interrupted: the exception is enough."""
    root = logging.getLogger()
    root.addFilter(_not_of_py4j)
    try:
        yield
    finally:
        root.removeFilter(_not_of_py4j)


def java_has_ended() -> bool:
    """Return whether the Java process that this process started has ended."""
    # Under spark-submit, Java is this process's parent, and the gateway has no process.
    java = getattr(SparkContext._gateway, "proc", None)
    return java is not None and java.poll() is not None


def check_java() -> None:
    """Check that Java still runs. For code that waits for long without calling Java.

    Raises:
        JavaEndedError: Java has ended.
    """
    if java_has_ended():
        raise JavaEndedError


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _reason(error: Exception) -> str:
    """Return Java's message without its stack trace: that of the innermost cause, which names the setting."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    text = str(error)
    try:
        while cause is not None:
            text, cause = str(cause.toString()), cause.getCause()
    except Py4JError:
        pass  # Java has ended: keep the text so far
    return text.strip()


def _has_ended(process: Any) -> bool:
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def _submitted(conf: Mapping[str, str]) -> Iterator[None]:
    """Pass settings to spark-submit in a private file, since any user can read a command line."""
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS")
    # Mode 0700. If this process is killed now, `sweep_scratch` finds the folder by its prefix.
    folder = Path(tempfile.mkdtemp(prefix="keyfold-scratch-spark-"))
    try:
        file = folder / "spark.properties"
        _write_properties(file, conf)
        # Without --load-spark-defaults, our file would replace conf/spark-defaults.conf.
        own = f"--properties-file {shlex.quote(str(file))} --load-spark-defaults"
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{own} {arguments or 'pyspark-shell'}"
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if arguments is None:
            os.environ.pop("PYSPARK_SUBMIT_ARGS", None)
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = arguments


def _check_launched(conf: Mapping[str, str]) -> None:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # spark-submit started it, with its own options
    for name in FIXED_AT_LAUNCH:
        there = SparkContext.getSystemProperty(name)
        if there != conf.get(name, there):
            raise Misconfigured(
                f"this process's Spark was started with {name}={shown(name, there)} and cannot change to "
                f"{shown(name, conf[name])}: "
                "start a new process"
            )


_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def _quietly_logged(conf: Mapping[str, str]) -> dict[str, str]:
    """Add settings with which Java logs only warnings and errors, unless they configure logging themselves."""
    options = conf.get(_JAVA_OPTIONS, "")
    if "log4j2.configurationFile" not in options:
        quiet = Path(__file__).with_name("log4j2.properties").as_uri()
        options = f"{options} -Dlog4j2.configurationFile={quiet}".strip()
    return {**conf, _JAVA_OPTIONS: options}


def _write_properties(file: Path, conf: Mapping[str, str]) -> None:
    """Write settings in the format of Java's properties, readable only for this user."""
    file.touch(mode=0o600)
    file.write_text("".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in conf.items()), encoding="ascii")


def _escaped(text: str) -> str:
    """Escape text for java.util.Properties."""
    # java.util.Properties is ASCII; all other characters are \uXXXX escapes of UTF-16 units.
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[place : place + 2]) for place in range(0, len(units), 2)]
    return "".join(
        chr(code)
        if chr(code).isascii() and (chr(code).isalnum() or chr(code) in ".-_/,*@$+()[]{}")
        else f"\\u{code:04x}"
        for code in codes
    )
