"""A real server of Spark Connect, on loopback and on a port it chooses itself, as pyspark ships it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.java_for_tests import QUICK, fast_starts
from tests.standalone_cluster import SPARK_HOME

SECONDS_TO_START = 90


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Start a server with two cores, yield its address, and stop it whatever happens."""
    log = folder / "connect.log"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    command = [SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", "--driver-java-options", QUICK]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    environment |= {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LAUNCHER_OPTS": fast_starts()["SPARK_LAUNCHER_OPTS"],
    }
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield f"sc://127.0.0.1:{_port(log)}"
    finally:
        server.terminate()
        try:
            server.wait(timeout=15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _port(log: Path) -> str:
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until:
        text = log.read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"Spark Connect server started at: \S*?:(\d+)", text):
            return found[1]
        time.sleep(0.1)
    raise TimeoutError(f"no server of Spark Connect in {SECONDS_TO_START} s; {log} says:\n{log.read_text()[-3000:]}")
