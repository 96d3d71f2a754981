"""Runs queries on Keyfold, or on stock Spark, in a process of its own with one Spark session; commands as of `flink_worker`."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.runs import run_query, take_in
from benchmarks.nexmark.spark_queries import run_on_spark
from keyfold import Lakehouse, build_session
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.runner import RunOptions
from keyfold.times import from_micros


def ingest(spark: SparkSession, home: str, files: str, kinds: list[str]) -> dict[str, Any]:
    """Take files in, into tables that are made anew."""
    lakehouse = Lakehouse(home)
    for kind in kinds:
        for folder in (lakehouse.events(kind), lakehouse.ingest(kind)):
            shutil.rmtree(str(folder), ignore_errors=True)
    return {"rows": take_in(spark, lakehouse, Path(files), kinds)}


def keyfold(spark: SparkSession, home: str, number: int, close: int, batch_bytes: int) -> dict[str, Any]:
    """Run a query's jobs over all events, from nothing."""
    lakehouse, query = Lakehouse(home), QUERIES[number]
    for job in query.jobs:
        shutil.rmtree(str(lakehouse.job(job.name)), ignore_errors=True)
    sizes: dict[str, int] = {}

    def look(*_: object) -> None:
        for job in query.jobs:
            live = live_generation(lakehouse, job.name)
            done = live.journal.last_done() if live else None
            sizes[job.name] = max(sizes.get(job.name, 0), done.state_bytes if done else 0)

    options = RunOptions(max_bytes_per_batch=batch_bytes, on_batch=look)
    summaries = run_query(spark, lakehouse, query, close=from_micros(close), options=options)
    return {"state_bytes": sum(sizes.values()), "batches": [len(one.batch_seconds) for one in summaries]}


_COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "ingest": ingest,
    "keyfold": keyfold,
    "spark": run_on_spark,
}


def main() -> None:
    spark = build_session()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            reply = _COMMANDS[command.pop("do")](spark, **command)
        except Exception as error:
            reply = {"error": str(error)[:600]}
        print("#reply " + json.dumps(reply), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
