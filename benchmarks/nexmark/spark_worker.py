"""Run queries on Keyfold or stock Spark, in a process with one Spark session; commands as in `flink_worker`."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import keyfold
from benchmarks.nexmark.events import KINDS
from benchmarks.nexmark.queries import QUERIES, Query
from benchmarks.nexmark.spark_queries import run_on_spark
from benchmarks.nexmark.streams import STREAMS
from keyfold import Lakehouse
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.live_record import live_record
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job_run import RunOptions
from keyfold.runners import Runners
from keyfold.runs.jobs import JobRun
from keyfold.session import build_session
from keyfold.stream import INGESTED_AT
from keyfold.times import from_micros


def take_in(spark: Runners, lakehouse: Lakehouse, files: Path, kinds: Iterable[str] = KINDS) -> int:
    """Ingest the new files of a folder; returns the number of events."""
    return sum(keyfold.ingest(lakehouse, STREAMS[kind], files / kind, runners=spark).accepted for kind in kinds)


def run_query(
    spark: Runners,
    lakehouse: Lakehouse,
    query: Query,
    close: datetime | None = None,
    options: RunOptions | None = None,
) -> list[JobRun]:
    """Run the jobs of a query over new events; `close` is the event time up to which windows close."""
    runs: list[JobRun] = []
    for job in query.jobs:
        # Event time of a job by arrival is processing time: close its windows in a minute.
        is_by_arrival = close is not None and any(input_.time_from == INGESTED_AT for input_ in job.inputs.values())
        mode = Incremental(datetime.now(UTC) + timedelta(minutes=1) if is_by_arrival else close)
        runs.append(keyfold.run(lakehouse, job, mode, options=options, runners=spark))
    return runs


def _ingest(spark: Runners, home: str, files: str, kinds: list[str]) -> dict[str, Any]:
    """Ingest files into new tables."""
    lakehouse = Lakehouse(home)
    for kind in kinds:
        for folder in (lakehouse.events(kind), lakehouse.ingest(kind)):
            shutil.rmtree(str(folder), ignore_errors=True)
    return {"rows": take_in(spark, lakehouse, Path(files), kinds)}


def _keyfold(spark: Runners, home: str, number: int, close: int) -> dict[str, Any]:
    """Run the jobs of a query over all events, in a home without jobs and their tables."""
    lakehouse, query = Lakehouse(home), QUERIES[number]
    live_record(lakehouse).unlink(missing_ok=True)
    for folder in ("jobs", "tables"):
        shutil.rmtree(str(lakehouse.home / folder), ignore_errors=True)
    sizes: dict[str, int] = {}

    def look(*_: object) -> None:
        for job in query.jobs:
            live = live_generation(lakehouse, job.name)
            record = live.journal.last_done() if live else None
            sizes[job.name] = max(sizes.get(job.name, 0), record.state_bytes if record else 0)

    options = RunOptions(on_batch=look)
    runs = run_query(spark, lakehouse, query, from_micros(close), options)
    return {"state_bytes": sum(sizes.values()), "batches": [len(run.batch_seconds) for run in runs]}


_COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {"ingest": _ingest, "keyfold": _keyfold, "spark": run_on_spark}


def main() -> None:
    session = build_session()
    spark = keyfold.Runners("spark", session)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            reply = _COMMANDS[command.pop("do")](spark, **command)
        except Exception as error:
            reply = {"error": str(error)[:600]}
        print("#reply " + json.dumps(reply), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
