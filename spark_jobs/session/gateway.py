"""The Java process behind a Spark session: found, checked, started, and kept quiet unless it fails."""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from spark_jobs.errors import KeyfoldError

OLDEST_JAVA = 17

FIXED_AT_LAUNCH = ("spark.driver.memory", "spark.jars.packages", "spark.jars.excludes")
"""Settings that a Java process takes at its start; a later session in the same process cannot change them."""


def java_version() -> int:
    """The major version of the Java that Spark will use: JAVA_HOME's, or else the first on PATH.

    Raises:
        KeyfoldError: there is none, it does not run, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    where = f"JAVA_HOME={home}" if home else "PATH"
    remedy = "install a Java 17 or 21 runtime (`make setup` tries to), or point JAVA_HOME to one"
    if java is None or not os.path.exists(java):
        raise KeyfoldError(f"Spark needs Java, and {where} has none: {remedy}")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if told.returncode != 0 or found is None:
        raise KeyfoldError(f"{java}, from {where}, does not run ({told.stderr.strip()[:200]}): {remedy}")
    version = int(found[1])
    if version < OLDEST_JAVA:
        raise KeyfoldError(f"{java}, from {where}, is Java {version}, too old for Spark: {remedy}")
    return version


def launch(conf: Mapping[str, str]) -> None:
    """Start the Java process with the Spark settings, or check that the one there was started with the same.

    What it prints while it starts (the report on every package, warnings about itself) is shown only if it fails.

    Raises:
        KeyfoldError: Java is missing or too old, the packages cannot be had, the process ends at once, or it is
            there already and its memory or packages are others.
    """
    if SparkContext._gateway is not None:
        _check_launched(conf)
        return
    java_version()
    own = SparkConf(loadDefaults=False).setAll([*conf.items(), _logging_options(conf)])
    messages = _Messages()
    try:
        gateway = launch_gateway(own, {"stderr": messages.pipe})
    except PySparkRuntimeError as error:
        raise KeyfoldError(_explained(messages.until_the_end())) from error
    messages.pass_on()
    SparkContext._ensure_initialized(gateway=gateway)


_DRIVER_WORKER = "Streaming TransformWithStateInPandas Python worker"
"""Pyspark prints five lines about itself, each with a blank one, at every start of a stateful query."""


class _Messages:
    """Collects the lines of the process's stderr until it runs, then passes them on to ours."""

    def __init__(self) -> None:
        read, self.pipe = os.pipe()
        self._lines: list[str] | None = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, args=(read,), name="spark-stderr", daemon=True)
        self._thread.start()

    def until_the_end(self) -> list[str]:
        """All lines of a process that has ended."""
        os.close(self.pipe)
        self._thread.join(timeout=10)
        return self._lines or []

    def pass_on(self) -> None:
        """Forget the lines so far, and write every further one to this process's stderr."""
        os.close(self.pipe)
        with self._lock:
            self._lines = None

    def _read(self, read: int) -> None:
        after_chatter = False
        with open(read, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                with self._lock:
                    if self._lines is not None:
                        self._lines.append(line.rstrip())
                        continue
                if _DRIVER_WORKER in line:
                    after_chatter = True
                elif line.strip() or not after_chatter:
                    after_chatter = False
                    os.write(2, line.encode())


def _logging_options(conf: Mapping[str, str]) -> tuple[str, str]:
    name = "spark.driver.extraJavaOptions"
    options = conf.get(name, "")
    if "log4j2.configurationFile" not in options:
        quiet = Path(__file__).with_name("log4j2.properties").as_uri()
        options = f"{options} -Dlog4j2.configurationFile={quiet}".strip()
    return name, options


def _check_launched(conf: Mapping[str, str]) -> None:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # spark-submit started it, with its own options
    for name in FIXED_AT_LAUNCH:
        there = SparkContext.getSystemProperty(name)
        if there != conf.get(name, there):
            raise KeyfoldError(
                f"this process's Spark was started with {name}={there} and cannot change to {conf[name]}: "
                "start a new process"
            )


def _explained(lines: list[str]) -> str:
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
    last = "\n".join(line for line in lines[-15:] if line.strip()) or "it printed nothing"
    return f"Spark's Java process ended before it was ready. Its last words:\n{last}"
