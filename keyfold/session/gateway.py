"""Find, check and start the Java process behind a Spark session. Its output is shown only if it fails."""

import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from keyfold.errors import KeyfoldError, Misconfigured, Unreachable
from keyfold.session.class_archive import with_class_archive
from keyfold.session.interrupts import signals_kept_waiting
from keyfold.session.redaction import shown, without_secrets

OLDEST_JAVA = 17

_OPTIONS = "spark.driver.extraJavaOptions"

FIXED_AT_LAUNCH = ("spark.driver.memory", "spark.jars.packages", "spark.jars.excludes")
"""Settings that Java reads at its start. A later session in the same process cannot change them."""


class JavaEndedError(Unreachable):
    """The Java process that this process started has ended."""

    def __init__(self) -> None:
        super().__init__(
            "Spark's Java process has ended: somebody killed it, or the machine ran out of memory. Committed batches stay, and "
            "nothing is lost: run it again"
        )


def java_text() -> str:
    """Return the output of `java -version` of the Java that Spark will use: that of JAVA_HOME, else the first on PATH.

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
    return text


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
    text = java_text()
    # At DEBUG, py4j logs all that it sends to Java, which includes secret settings.
    log = logging.getLogger("py4j")
    log.setLevel(max(logging.INFO, log.getEffectiveLevel()))
    messages = _Messages()
    with _submitted(java_options(quietly_logged(conf), text)):
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
        write_properties(file, conf)
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


def quietly_logged(conf: Mapping[str, str]) -> dict[str, str]:
    """Add settings with which Java logs only warnings and errors, unless they configure logging themselves."""
    options = conf.get(_OPTIONS, "")
    if "log4j2.configurationFile" not in options:
        quiet = Path(__file__).with_name("log4j2.properties").as_uri()
        options = f"{options} -Dlog4j2.configurationFile={quiet}".strip()
    return {**conf, _OPTIONS: options}


def java_options(conf: Mapping[str, str], java: str) -> dict[str, str]:
    """Add the options with which Java starts from the archive of Spark's classes, if there is one.

    Args:
        conf: all settings.
        java: the output of `java -version`.
    """
    return {**conf, _OPTIONS: with_class_archive(conf.get(_OPTIONS, ""), java)}


def write_properties(file: Path, conf: Mapping[str, str]) -> None:
    """Write settings in the format of spark-submit, readable only for this user."""
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


_DRIVER_WORKER = "Streaming TransformWithStateInPandas Python worker"
"""PySpark prints five such lines, each followed by a blank one, whenever a stateful query starts. They are dropped."""


class _Messages:
    """Collects what Java prints until it runs, then passes later lines on to stderr."""

    def __init__(self) -> None:
        read, self.pipe = os.pipe()
        self._lines: list[str] | None = []
        self._lock = threading.Lock()
        self._end, self._end_seen = f"keyfold-{uuid.uuid4().hex}", threading.Event()
        self._thread = threading.Thread(target=self._read, args=(read,), name="spark-stderr", daemon=True)
        self._thread.start()

    def until_the_end(self) -> list[str]:
        """Return all lines of a process that has ended."""
        os.close(self.pipe)
        self._thread.join(timeout=10)
        return self._lines or []

    def forget(self) -> None:
        """Drop the lines so far: the process runs."""
        with self._lock:
            self._lines = []

    def pass_on(self) -> list[str]:
        """Return the lines so far. Later ones go to this process's stderr."""
        # Java's output so far is in the pipe, but perhaps not read yet: wait for a marker written after it.
        os.write(self.pipe, f"{self._end}\n".encode())
        os.close(self.pipe)
        self._end_seen.wait(timeout=10)
        with self._lock:
            lines, self._lines = self._lines or [], None
        return lines

    def _read(self, read: int) -> None:
        after_chatter = False
        with open(read, encoding="utf-8", errors="replace") as stream:
            for said in stream:
                # The marker of `pass_on` may follow other text on its line.
                line = said
                if self._end in line:
                    line = line.replace(f"{self._end}\n", "")
                with self._lock:
                    if self._lines is not None:
                        if line:
                            self._lines.append(line.rstrip())
                        if line is not said:
                            self._end_seen.set()
                        continue
                if _DRIVER_WORKER in line:
                    after_chatter = True
                elif line.strip() or not after_chatter:
                    after_chatter = False
                    os.write(2, line.encode())


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


def explained(lines: Sequence[str]) -> str:
    """Return an error message for the output of a Java process that ended before it was ready."""
    text = "\n".join(lines)
    if jars := sorted(set(re.findall(r"\[NOT FOUND +\] (\S+#\S+?;\S+?)!", text))):
        return (
            f"Spark could not get the jars of {', '.join(jars)}. If the local Maven repository (~/.m2/repository) has a "
            "package's POM without its jar, Spark looks nowhere else: run `make setup` with Maven installed, or delete the "
            "package's folder there"
        )
    if packages := sorted(set(re.findall(r":: (\S+#\S+;\S+): not found", text))):
        return (
            f"Spark could not get these packages: {', '.join(packages)}. It looks in the local Maven repository, then "
            "on the network: check the coordinates and the connection; where Maven is installed, `make setup` fetches "
            "them with it (KEYFOLD_SPARK_PACKAGES names further ones)"
        )
    printed = [line for line in lines if line.strip() and not line.startswith("\tat ")]
    last = "\n".join(printed[-15:]) or "(none)"
    return f"Spark's Java process ended before it was ready. Its last output:\n{last}"
