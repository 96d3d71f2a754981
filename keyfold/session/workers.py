"""Check a cluster's workers before a run: that there are executors, and that versions match.

Without these checks, failures show late and misleadingly: a job that waits for ever, a stack trace of pickle.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from threading import Event, Thread
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from keyfold.errors import KeyfoldError, Unreachable, error_in

EXECUTORS_WITHIN = "spark.keyfold.executorsWithin"
"""Keyfold's own Spark setting: seconds to wait for the first executor."""

SECONDS_TO_FIRST_EXECUTOR = 300

_READ_BY_WORKERS = ("KEYFOLD_ENRICHMENT_", "KEYFOLD_KAFKA_", "AWS_", "GOOGLE_", "AZURE_", "AZURITE_")
"""Prefixes of variables that code in workers reads. On one machine, workers inherit them."""

_TASKS_A_CORE = 2
_GROUP = "keyfold-workers"


def pass_environment(session: SparkSession) -> None:
    """Send this process's variables that workers read with every task, over Spark's own connection."""
    session.sparkContext.environment.update(
        {name: value for name, value in os.environ.items() if name.startswith(_READ_BY_WORKERS)}
    )


def check_workers(session: SparkSession) -> None:
    """Check that the cluster gives executors, and that their Python has this process's versions.

    Raises:
        KeyfoldError: no executor comes in time, or a node lacks this Python or has other versions; the message names the
            node and the versions.
    """
    conf = session.sparkContext.getConf()
    seconds = float(conf.get(EXECUTORS_WITHIN, str(SECONDS_TO_FIRST_EXECUTOR)) or SECONDS_TO_FIRST_EXECUTOR)

    def look(_: Iterable[Any]) -> Iterator[str]:
        import keyfold  # noqa: PLC0415 - the import in the worker is the check

        yield keyfold.__name__

    stopped = _on_workers(session, look, within=seconds)
    if stopped is None:
        raise Unreachable(
            f"{conf.get('spark.master')} gave this application no executor within {seconds:g} s. It asks for executors of "
            f"{conf.get('spark.executor.memory', '1g')} and {conf.get('spark.executor.cores', 'all')} cores each; perhaps no "
            "worker has as much, or other applications hold all cores (limit each with spark.cores.max). See the cluster's web "
            f"pages; {EXECUTORS_WITHIN} sets how long to wait"
        )


def _on_workers(
    session: SparkSession, look: Callable[..., Iterator[Any]], within: float | None = None
) -> list[Any] | None:
    """Run a function in tasks on all cores and collect its results; None if no executor took a task in time."""
    context: Any = session.sparkContext
    # More tasks than cores, so that every executor is likely to get one.
    tasks = _TASKS_A_CORE * max(2, context.defaultParallelism)
    over, gave_up = Event(), Event()

    def give_up() -> None:
        # Give up only if there is no executor: a task that has started may take long. The driver counts as one.
        if not over.wait(within) and len(context._jsc.sc().statusTracker().getExecutorInfos()) <= 1:
            gave_up.set()
            context.cancelJobGroup(_GROUP)

    watch = Thread(target=give_up, name="executors", daemon=True) if within is not None else None
    context.setJobGroup(_GROUP, "keyfold: checks the workers", interruptOnCancel=True)
    try:
        if watch is not None:
            watch.start()
        return context.parallelize(range(tasks), tasks).mapPartitions(look).collect()
    except (Py4JError, PySparkException) as error:
        if gave_up.is_set():
            return None
        raise KeyfoldError(_explained(str(error))) from None
    finally:
        over.set()
        if watch is not None:
            watch.join()
        # Unset the job group, which would apply to all later jobs of this thread.
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(name, None)


def _explained(text: str) -> str:
    """Return an error message for a failed check, with the node's name, from the line of the lost task in Spark's error."""
    found = re.search(r"\(TID \d+\) \((\S+) executor", text)
    node = found[1] if found else "a node"
    if raised := error_in(text):
        return str(raised)
    if differs := re.search(
        r"Python in worker has different version:? (\S+?)\.? than that in driver:? ([\d.]+\d)", text
    ):
        return (
            f"node {node} has Python {differs[1]}, the driver {differs[2]}: give every node the driver's Python, and name it "
            "in PYSPARK_PYTHON or spark.pyspark.python (docs/reference/cluster.md)"
        )
    if missing := re.search(r'Cannot run program "([^"]+)"', text):
        return (
            f"node {node} has no Python at {missing[1]}: name one that every node has in PYSPARK_PYTHON or "
            "spark.pyspark.python (docs/reference/cluster.md)"
        )
    last = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return f"Spark's workers failed on node {node}: " + " | ".join(line.strip() for line in last[:12])
