"""The Java process behind a Spark session: found, checked, started, and kept quiet unless it fails."""

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
"""Settings that a Java process takes at its start; a later session in the same process cannot change them."""


class JavaEndedError(Unreachable):
    """The Java process that this process has started is there no more."""

    def __init__(self) -> None:
        super().__init__(
            "Spark's Java process has ended: somebody killed it, or the machine ran out of memory. What is committed stays, "
            "and nothing is lost: run it again"
        )


def java_version() -> int:
    """The major version of the Java that Spark will use: JAVA_HOME's, or else the first on PATH.

    Raises:
        KeyfoldError: as `java_text`.
    """
    return _version_in(java_text()) or 0


def java_text() -> str:
    """What the Java that Spark will use prints of itself, its version and where it was built.

    Raises:
        KeyfoldError: there is none, it does not run, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    where = f"JAVA_HOME={home}" if home else "PATH"
    remedy = "install a Java 17 or 21 runtime (`make setup` tries to), or point JAVA_HOME to one"
    if java is None or not os.path.exists(java):
        raise Misconfigured(f"Spark needs Java, and {where} has none: {remedy}")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    text = told.stderr + told.stdout
    version = _version_in(text)
    if told.returncode != 0 or version is None:
        raise Misconfigured(f"{java}, from {where}, does not run ({told.stderr.strip()[:200]}): {remedy}")
    if version < OLDEST_JAVA:
        raise Misconfigured(f"{java}, from {where}, is Java {version}, too old for Spark: {remedy}")
    return text


def _version_in(text: str) -> int | None:
    # Up to Java 8 it calls itself 1.8; and it tells its version on stderr.
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


@contextmanager
def launched(conf: Mapping[str, str]) -> Iterator[None]:
    """Start the Java process with the Spark settings, or check that the one there was started with the same.

    What it prints while it starts (the report on every package, warnings about itself) is shown only if it fails; so is
    what it prints within the context, in which the session is to be made.

    Raises:
        KeyfoldError: Java is missing or too old, the packages cannot be had, the process ends at once, it is there already
            and its memory or packages are others, or Spark refuses a setting.
    """
    if SparkContext._gateway is not None:
        _check_launched(conf)
        with _plain_errors(conf):
            yield
        return
    text = java_text()
    # At DEBUG, py4j logs every word that it says to Java: settings, secrets among them.
    log = logging.getLogger("py4j")
    log.setLevel(max(logging.INFO, log.getEffectiveLevel()))
    messages = _Messages()
    with _submitted(java_options(quietly_logged(conf), text)):
        try:
            # Java says of some troubles on stdout what they are; and ours may be read by a program.
            # In a session of its own: what is told to stop with all of its group (a shell's job, `timeout`) needs Java to
            # finish its batch. It ends with this process, however that one ends.
            settings = {"stdout": messages.pipe, "stderr": messages.pipe, "start_new_session": True}
            with signals_kept_waiting():
                gateway: Any = launch_gateway(None, settings)
        except PySparkRuntimeError:
            raise KeyfoldError(without_secrets(explained(messages.until_the_end()), conf)) from None
    messages.forget()
    SparkContext._ensure_initialized(gateway=gateway)
    try:
        with _plain_errors(conf):
            yield
    except BaseException:
        lines = messages.pass_on()
        # Where spark-submit has started this process, Java is the parent of it.
        if (java := getattr(gateway, "proc", None)) is not None and _has_ended(java):
            # Else the next session of this process would be asked of a Java that is gone.
            SparkContext._gateway = SparkContext._jvm = None
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
    """Keep back the stack that py4j logs when a call to Java is cut short; what is raised says it all."""
    root = logging.getLogger()
    root.addFilter(_not_of_py4j)
    try:
        yield
    finally:
        root.removeFilter(_not_of_py4j)


def java_has_ended() -> bool:
    """Whether the Java process that this process has started is there no more."""
    # Where spark-submit has started this process, Java is the parent of it.
    java = getattr(SparkContext._gateway, "proc", None)
    return java is not None and java.poll() is not None


def check_java() -> None:
    """See that Java still runs, for what waits long without asking anything of it.

    Raises:
        JavaEndedError: it does not.
    """
    if java_has_ended():
        raise JavaEndedError


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _reason(error: Exception) -> str:
    """What Java says, without its stack: the innermost cause names the setting."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    text = str(error)
    try:
        while cause is not None:
            text, cause = str(cause.toString()), cause.getCause()
    except Py4JError:
        pass  # Java has ended; what it said first is all there is
    return text.strip()


def _has_ended(process: Any) -> bool:
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def _submitted(conf: Mapping[str, str]) -> Iterator[None]:
    """Have spark-submit read the settings from a file that is its user's alone: a command line is everybody's to read."""
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS")
    # Mode 0700; of a process that is killed in this moment, `sweep_scratch` finds it by its name.
    folder = Path(tempfile.mkdtemp(prefix="keyfold-scratch-spark-"))
    try:
        file = folder / "spark.properties"
        write_properties(file, conf)
        # A file of our own would take the place of conf/spark-defaults.conf.
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
    """Settings with which Java logs what is wrong and nothing else, unless they say how it logs."""
    options = conf.get(_OPTIONS, "")
    if "log4j2.configurationFile" not in options:
        quiet = Path(__file__).with_name("log4j2.properties").as_uri()
        options = f"{options} -Dlog4j2.configurationFile={quiet}".strip()
    return {**conf, _OPTIONS: options}


def java_options(conf: Mapping[str, str], java: str) -> dict[str, str]:
    """Settings with which Java starts from the archive of Spark's classes, where there is one.

    Args:
        conf: all settings.
        java: what `java -version` prints.
    """
    return {**conf, _OPTIONS: with_class_archive(conf.get(_OPTIONS, ""), java)}


def write_properties(file: Path, conf: Mapping[str, str]) -> None:
    """Write settings as spark-submit reads them, for this user alone."""
    file.touch(mode=0o600)
    file.write_text("".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in conf.items()), encoding="ascii")


def _escaped(text: str) -> str:
    """Text as java.util.Properties reads it, whatever is in it."""
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[place : place + 2]) for place in range(0, len(units), 2)]
    return "".join(
        chr(code)
        if chr(code).isascii() and (chr(code).isalnum() or chr(code) in ".-_/,*@$+()[]{}")
        else f"\\u{code:04x}"
        for code in codes
    )


_DRIVER_WORKER = "Streaming TransformWithStateInPandas Python worker"
"""Pyspark prints five lines about itself, each with a blank one, at every start of a stateful query."""


class _Messages:
    """Collects the lines that the process prints until it runs, then passes them on to our stderr."""

    def __init__(self) -> None:
        read, self.pipe = os.pipe()
        self._lines: list[str] | None = []
        self._lock = threading.Lock()
        self._end, self._end_seen = f"keyfold-{uuid.uuid4().hex}", threading.Event()
        self._thread = threading.Thread(target=self._read, args=(read,), name="spark-stderr", daemon=True)
        self._thread.start()

    def until_the_end(self) -> list[str]:
        """All lines of a process that has ended."""
        os.close(self.pipe)
        self._thread.join(timeout=10)
        return self._lines or []

    def forget(self) -> None:
        """Forget the lines so far, of a process that runs."""
        with self._lock:
            self._lines = []

    def pass_on(self) -> list[str]:
        """The lines since; every further one is written to this process's stderr."""
        # What Java said before it answered is in the pipe by now, but perhaps not yet among the lines.
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
    """What a Java process that ended before it was ready has printed, as people can use it."""
    text = "\n".join(lines)
    if jars := sorted(set(re.findall(r"\[NOT FOUND +\] (\S+#\S+?;\S+?)!", text))):
        return (
            f"Spark could not get the jars of {', '.join(jars)}. Where the local Maven repository (~/.m2/repository) "
            "holds a package's POM without its jar, Spark looks nowhere else: `make setup` with Maven installed "
            "completes it, or delete the package's folder there"
        )
    if packages := sorted(set(re.findall(r":: (\S+#\S+;\S+): not found", text))):
        return (
            f"Spark could not get these packages: {', '.join(packages)}. It looks in the local Maven repository, then "
            "on the network: check the coordinates and the connection; where Maven is installed, `make setup` fetches "
            "them with it (KEYFOLD_SPARK_PACKAGES names further ones)"
        )
    told = [line for line in lines if line.strip() and not line.startswith("\tat ")]
    last = "\n".join(told[-15:]) or "it printed nothing"
    return f"Spark's Java process ended before it was ready. Its last words:\n{last}"
