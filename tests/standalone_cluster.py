"""A real Spark master and workers, on loopback and on ports they choose themselves, which want a secret of who comes."""

import os
import re
import secrets
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from tests.java_for_tests import QUICK, fast_starts

SPARK_HOME = Path(pyspark.__file__).parent
SECONDS_TO_START = 90


@dataclass(frozen=True)
class Cluster:
    """Where a cluster is, and what an application must know of it.

    Attributes:
        master: its URL.
        pages: the address of the master's pages, which a secret does not guard.
        conf: settings that an application takes, its secret among them.
        folder: of its logs.
        workers: its workers' processes.
    """

    master: str
    pages: str
    conf: dict[str, str] = field(repr=False)
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which the command line and Dagster find it."""
        conf = shlex.join(f"{name}={value}" for name, value in self.conf.items())
        return {"KEYFOLD_SPARK_MASTER": self.master, "KEYFOLD_SPARK_CONF": conf}


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    """Start a master and its workers, and stop them whatever happens.

    Args:
        folder: where they keep their logs and their work; a temporary one.
        workers: how many.
        cores: how many each worker offers.
        memory: how much each worker offers to executors.
    """
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK,
        "spark.authenticate.secret": f"planted-{secrets.token_hex(16)}",
    }
    properties = folder / "daemons.properties"
    properties.touch(mode=0o600)
    properties.write_text(
        # The master's REST server would take applications from whoever asks, without the secret.
        f"spark.authenticate true\nspark.network.crypto.enabled true\nspark.master.rest.enabled false\n"
        f"spark.authenticate.secret {conf['spark.authenticate.secret']}\n"
    )
    with ExitStack() as running:
        master_log = folder / "master.log"
        _daemon(running, master_log, properties, "master", "--port", "0")
        url = _awaited(master_log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        pages = _awaited(master_log, r"Successfully started service 'MasterUI' on port (\d+)")
        offer = ("--port", "0", "--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work"))
        logs = [folder / f"worker-{number}.log" for number in range(workers)]
        processes = [_daemon(running, log, properties, "worker", *offer, url) for log in logs]
        for log in logs:
            _awaited(log, r"(Successfully registered with master)")
        yield Cluster(url, f"http://127.0.0.1:{pages}", conf, folder, processes)


def _daemon(running: ExitStack, log: Path, properties: Path, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a daemon that ends when `running` does."""
    name = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
    own = ("--host", "127.0.0.1", "--webui-port", "0", "--properties-file", str(properties))
    # Nothing of this process's Spark may leak into the daemons, and they listen on loopback alone. Nor do they know of a
    # store: executors reach it by what the driver tells them.
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name and name[:4] != "AWS_"}
    environment |= {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(log.parent),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{QUICK} -XX:+UseSerialGC",
        "SPARK_LAUNCHER_OPTS": fast_starts()["SPARK_LAUNCHER_OPTS"],
    }
    with log.open("wb") as out:
        command = [SPARK_HOME / "bin" / "spark-class", name, *own, *arguments]
        daemon = subprocess.Popen(
            command, cwd=log.parent, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    running.callback(_stop, daemon)
    return daemon


def _stop(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(timeout=15)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _awaited(log: Path, pattern: str) -> str:
    """The first group of a pattern, as soon as the log has it."""
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until:
        if found := re.search(pattern, log.read_text(encoding="utf-8", errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise TimeoutError(f"{pattern!r} did not come in {SECONDS_TO_START} s; {log} says:\n{log.read_text()[-3000:]}")
