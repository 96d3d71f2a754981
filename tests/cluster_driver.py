"""A driver on a cluster, in a process of its own: does what runs do, and prints what came of it as JSON.

`python tests/cluster_driver.py FOLDER`, with the variables of `standalone_cluster`'s `Cluster.environment`.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from keyfold.errors import KeyfoldError
from keyfold.ingestion import batch
from keyfold.keyed.conservation import check_conservation
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.runs import ingest
from keyfold.session import SparkSettings, build_session
from keyfold.storage.disk_path import DiskPath
from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation import simulate
from spark_jobs.streams import RIDE_POINTS


def main(folder: DiskPath) -> None:
    settings = SparkSettings.from_environment()
    os.environ["KEYFOLD_ENRICHMENT_OF_A_TEST"] = "from the driver"
    session = build_session(settings)
    spark = Runners("spark", session)
    told = {
        "nodes": sorted({tuple(row) for row in session.range(8).repartition(8).mapInArrow(_where, _WHERE).collect()}),
        "rides": _rides(spark, Lakehouse(folder / "home")),
        # By this path each process sees a folder of its own.
        "not shared": _refused(lambda: spark.spark.check_shared(DiskPath("/proc/self/cwd/mine"))),
        "not there": _refused(lambda: spark.spark.check_shared(DiskPath("/proc/self/cwd"), writable=False)),
    }
    shutil.move(folder / "home", folder / "moved")
    told["moved"] = check_conservation(Lakehouse(folder / "moved"), _job()).balanced
    told["left"] = [str(path) for path in (folder / "moved").rglob("*.shared-*")]
    session.stop()
    print(json.dumps(told, default=str))


_WHERE = "process long, work string, file string, passed string"


def _where(batches: Any) -> Any:
    import keyfold.times  # noqa: PLC0415 - in the worker

    for _ in batches:
        passed = os.environ.get("KEYFOLD_ENRICHMENT_OF_A_TEST")
        # All workers together, else one takes all tasks.
        __import__("time").sleep(0.3)
        row = {"process": os.getppid(), "work": os.getcwd(), "file": keyfold.times.__file__, "passed": passed}
        yield pa.RecordBatch.from_pylist([row])


def _job() -> Any:
    return build_job(JOBS["ride_summaries"], {"close": "complete", "delay": "30d"})


def _rides(spark: Runners, lakehouse: Lakehouse) -> dict[str, Any]:
    simulate("ride_points", Path(str(lakehouse.landing("ride_points"))), size=30, seed=3, files=6)
    # However little there is, workers read it, in parts.
    batch._SPLIT_BYTES = 4_000
    ingested = ingest(lakehouse, RIDE_POINTS, runners=spark)
    ran = run_job(lakehouse, _job(), Incremental(advance_to=datetime(2026, 12, 31, tzinfo=UTC)), runners=spark)
    return {
        "accepted": ingested.accepted,
        "events": ran.totals.events,
        "late": ran.totals.rows["late.ride_summaries"],
        "watermark": ran.watermark.isoformat() if ran.watermark else None,
        "balanced": check_conservation(lakehouse, _job()).balanced,
    }


def _refused(action: Callable[[], object]) -> str:
    try:
        action()
    except KeyfoldError as error:
        return str(error)
    return "it was not refused"


if __name__ == "__main__":
    main(DiskPath(sys.argv[1]))
