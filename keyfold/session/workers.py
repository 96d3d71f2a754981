"""Equip a cluster's workers before a run, and check them: that there are executors, and that versions match.

Without these checks, failures show late and misleadingly: a job that waits for ever, a stack trace of pickle.
"""

import os
import re
import uuid
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from keyfold.errors import KeyfoldError, Unreachable, error_in
from keyfold.project import project_packages
from keyfold.session.scratch import new_scratch
from keyfold.session.shipping import zip_packages
from keyfold.session.spark_settings import SparkSettings

EXECUTORS_WITHIN = "spark.keyfold.executorsWithin"
"""Keyfold's own Spark setting: seconds to wait for the first executor."""

SECONDS_TO_FIRST_EXECUTOR = 300

_READ_BY_WORKERS = ("KEYFOLD_ENRICHMENT_", "KEYFOLD_KAFKA_", "AWS_", "GOOGLE_", "AZURE_", "AZURITE_")
"""Prefixes of variables that code in workers reads. On one machine, workers inherit them."""

_TASKS_A_CORE = 2


def equip_workers(session: SparkSession, settings: SparkSettings) -> None:
    """Ship packages to the workers, and variables with every task, and check that they can use them.

    Raises:
        KeyfoldError: no executor comes in time, or a node lacks this Python or has other versions; the message names the
            node and the versions.
    """
    session.sparkContext.addPyFile(str(packed(settings.ship)))
    session.sparkContext.environment.update(
        {name: value for name, value in os.environ.items() if name.startswith(_READ_BY_WORKERS)}
    )
    _check_workers(session)


@cache
def packed(ship: tuple[str, ...]) -> Path:
    """Return a zip of `keyfold`, the project's packages and those to ship; the same for all sessions of this process.

    Spark puts it on this process's path too, where a second look would find the packages in it.
    """
    # In a folder that lasts as long as the process: Spark serves the file to executors that start later.
    return zip_packages(("keyfold", *project_packages(), *ship), new_scratch())


def _check_workers(session: SparkSession) -> None:
    context: Any = session.sparkContext
    conf = context.getConf()
    seconds = float(conf.get(EXECUTORS_WITHIN, "") or SECONDS_TO_FIRST_EXECUTOR)
    # More tasks than cores, so that every executor is likely to get one.
    tasks = _TASKS_A_CORE * max(2, context.defaultParallelism)
    tag, is_over, gave_up = f"keyfold-{uuid.uuid4().hex}", Event(), Event()

    def look(_: Iterable[Any]) -> Iterator[str]:
        import keyfold  # noqa: PLC0415 - the import in the worker is the check

        yield keyfold.__name__

    def give_up() -> None:
        # Give up only if there is no executor: a task that has started may take long. The driver counts as one.
        if not is_over.wait(seconds) and len(context._jsc.sc().statusTracker().getExecutorInfos()) <= 1:
            gave_up.set()
            context.cancelJobsWithTag(tag)

    watch = Thread(target=give_up, name="executors", daemon=True)
    # This thread ends with the start of the session, and its tag with it.
    context.addJobTag(tag)
    watch.start()
    try:
        context.parallelize(range(tasks), tasks).mapPartitions(look).collect()
    except (Py4JError, PySparkException) as error:
        if not gave_up.is_set():
            raise KeyfoldError(_explained(str(error))) from None
        raise Unreachable(
            f"{conf.get('spark.master')} gave this application no executor within {seconds:g} s. It asks for executors of "
            f"{conf.get('spark.executor.memory', '1g')} and {conf.get('spark.executor.cores', 'all')} cores each; perhaps no "
            "worker has as much, or other applications hold all cores (limit each with spark.cores.max). See the cluster's web "
            f"pages; {EXECUTORS_WITHIN} sets how long to wait"
        ) from None
    finally:
        is_over.set()
        watch.join()


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
