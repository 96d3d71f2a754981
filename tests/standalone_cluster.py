"""A real Spark master and worker, on loopback and on ports they choose themselves."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
SECONDS_TO_START = 90


@contextmanager
def standalone_cluster(folder: Path, cores: int = 2, memory: str = "1g") -> Iterator[str]:
    """Start a master and one worker, yield the master's URL, and stop both whatever happens.

    Args:
        folder: where the two keep their logs and their work; a temporary one.
        cores: how many the worker offers.
        memory: how much the worker offers to executors.
    """
    with ExitStack() as running:
        master_log = _daemon(running, folder, "master", "--port", "0")
        url = _awaited(master_log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        offer = ("--port", "0", "--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work"))
        worker_log = _daemon(running, folder, "worker", *offer, url)
        _awaited(worker_log, r"(Successfully registered with master)")
        yield url


def _daemon(running: ExitStack, folder: Path, kind: str, *arguments: str) -> Path:
    """Start a daemon that ends when `running` does; returns the file it logs to."""
    log = folder / f"{kind}.log"
    name = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
    command = [SPARK_HOME / "bin" / "spark-class", name, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
    # Nothing of this process's Spark may leak into the daemons, and they listen on loopback alone.
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    environment |= {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder)}
    out = running.enter_context(log.open("wb"))
    daemon = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    running.callback(_stop, daemon)
    return log


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
