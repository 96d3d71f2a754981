"""The Java process of this process's Spark sessions: found, checked, started with private settings, and ended with this process."""

import atexit
import logging
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from keyfold.errors import KeyfoldError, Misconfigured, Unreachable
from keyfold.session.java_output import JavaOutput
from keyfold.session.redaction import without_secrets
from keyfold.session.scratch import new_scratch, spark_home, sweep_scratch

OLDEST_JAVA = 17

FIXED_AT_LAUNCH = ("spark.driver.memory", "spark.jars.packages")
"""Settings that Java reads at its start. A later session of the same process cannot change them."""

_SETTINGS = "spark.properties"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SECONDS_TO_END = 20


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
    if int(version[1]) < OLDEST_JAVA:
        raise Misconfigured(f"{java}, from {place}, is Java {version[1]}, too old for Spark: {remedy}")


class Java:
    """A running Java process, which all Spark sessions of this process use, and which ends with this process.

    Args:
        conf: Spark's settings; Java gets them in a private file, since any user can read a command line.

    Raises:
        KeyfoldError: Java is missing or too old, packages cannot be fetched, or the process ends at once.
    """

    def __init__(self, conf: Mapping[str, str]) -> None:
        check_installed_java()
        self.conf = dict(conf)
        # At DEBUG, py4j logs all that it sends to Java, which includes secret settings.
        py4j = logging.getLogger("py4j")
        py4j.setLevel(max(logging.INFO, py4j.getEffectiveLevel()))
        logging.getLogger().addFilter(_is_not_of_py4j)
        sweep_scratch()
        self._output, scratch = JavaOutput(), new_scratch()
        with _environment(variables(self.conf, scratch)):
            # In a session of its own: a signal to our process group, from a shell or `timeout`, must not end Java, which is needed
            # to finish the batch. Java ends when its standard input does, so when this process ends, however that happens.
            pipes = {"stdout": self._output.pipe, "stderr": self._output.pipe, "start_new_session": True}
            try:
                gateway: Any = launch_gateway(None, pipes)
            except PySparkRuntimeError:
                self._output.close()
                raise KeyfoldError(without_secrets(self._output.explained(), conf)) from None
            finally:
                (scratch / _SETTINGS).unlink()
        self._output.close()
        self._output.forget()
        self._process: subprocess.Popen[bytes] | None = gateway.proc
        self._owner = os.getpid()
        # A private interface of PySpark: sessions that are created later use this gateway.
        SparkContext._ensure_initialized(gateway=gateway)
        atexit.register(self.end)

    @property
    def is_of_spark_submit(self) -> bool:
        """Whether `spark-submit` has started it, with its own options; it is this process's parent then."""
        return self._process is None

    @contextmanager
    def starting_session(self) -> Iterator[None]:
        """Show Java's output after the session in this context has started; on a failure, end Java.

        Java keeps the settings of its start, also a refused one: the next session of this process needs another Java.

        Raises:
            KeyfoldError: Spark does not start; the message has the reason.
        """
        try:
            yield
        except BaseException as error:
            has_ended = self._process is not None and _ends_within(self._process, seconds=2)
            reason = _reason(error)
            self.end()
            SparkContext._gateway = SparkContext._jvm = None
            if has_ended:
                raise KeyfoldError(without_secrets(self._output.explained(), self.conf)) from None
            if isinstance(error, Py4JError | PySparkException):
                raise KeyfoldError(f"Spark did not start: {without_secrets(reason, self.conf)}") from None
            raise
        self._output.show()

    def end(self) -> None:
        """Stop Spark, end the process, and wait until it has ended."""
        atexit.unregister(self.end)
        if self._process is None or os.getpid() != self._owner:
            return  # a fork runs exit handlers too
        # PySpark's own servers of this process first: they report a Java that is gone as an error.
        if (context := SparkContext._active_spark_context) is not None:
            with suppress(Exception):
                context.stop()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not _ends_within(self._process, _SECONDS_TO_END):
            self._process.kill()
            self._process.wait()


@contextmanager
def java_end_explained() -> Iterator[None]:
    """Replace what py4j raises if Java is gone.

    Raises:
        Unreachable: the Java process has ended.
    """
    try:
        yield
    except (Py4JNetworkError, ConnectionError):
        raise Unreachable(
            "Spark's Java process has ended: somebody killed it, or the machine ran out of memory. Committed batches stay, and "
            "nothing is lost: run it again"
        ) from None


def _ends_within(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Suppress the stack trace that py4j logs when a call to Java fails: the exception is enough."""
    return Path(record.pathname).parent.name != "py4j"


def _reason(error: BaseException) -> str:
    """Return Java's message without its stack trace: that of the innermost cause, which names the setting."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    text = str(error)
    with suppress(Py4JError, OSError):  # if Java has ended, the text so far
        while cause is not None:
            text, cause = str(cause.toString()), cause.getCause()
    return text.strip()


def variables(conf: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return the environment variables with which Java starts. Later sessions have other folders, so these are no settings."""
    file = scratch / _SETTINGS
    file.touch(mode=0o600)
    file.write_text("".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in _quiet(conf)), encoding="ascii")
    # Without --load-spark-defaults, our file would replace conf/spark-defaults.conf.
    own = f"--properties-file {shlex.quote(str(file))} --load-spark-defaults"
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {shlex.quote(f'-Djava.io.tmpdir={scratch}')}"
    added = {
        "PYSPARK_SUBMIT_ARGS": f"{own} {os.environ.get('PYSPARK_SUBMIT_ARGS', 'pyspark-shell')}",
        "SPARK_SUBMIT_OPTS": options.strip(),
    }
    # Spark's local folders may be on a disk of their own.
    if "spark.local.dir" not in conf and "SPARK_LOCAL_DIRS" not in os.environ:
        added["SPARK_LOCAL_DIRS"] = str(scratch)
    # On a cluster, workers run on other machines and have no such folder.
    if conf.get("spark.master", "").startswith("local") and "SPARK_HOME" not in os.environ:
        added["SPARK_HOME"] = str(spark_home(scratch))
    return added


def _quiet(conf: Mapping[str, str]) -> list[tuple[str, str]]:
    """Add settings with which Java logs only errors, unless they configure logging themselves."""
    options = conf.get(_JAVA_OPTIONS, "")
    if "log4j2.configurationFile" not in options:
        quiet = Path(__file__).with_name("log4j2.properties").as_uri()
        options = f"{options} -Dlog4j2.configurationFile={quiet}".strip()
    return [*{**conf, _JAVA_OPTIONS: options}.items()]


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables within the context; later child processes must not use these folders, which end with this process."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _escaped(text: str) -> str:
    """Escape text for java.util.Properties: ASCII, all other characters as escapes of UTF-16 units."""
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[place : place + 2]) for place in range(0, len(units), 2)]
    return "".join(
        chr(code)
        if chr(code).isascii() and (chr(code).isalnum() or chr(code) in ".-_/,*@$+()[]{}")
        else f"\\u{code:04x}"
        for code in codes
    )
