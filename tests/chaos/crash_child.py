"""The process that tests of faults break: ingest and ride summaries in small batches.

Run as `python -m tests.chaos.crash_child HOME LANDING STARTED`; touches STARTED when Spark is up.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path

from keyfold.ingestion import ingest
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.building import build_job
from keyfold.keyed.runner import RunOptions, run_job
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.session import SparkSettings, build_session
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import RIDE_POINTS

IN_TIME, LATE = "in-time", "late"
"""Folders of LANDING."""

PARAMETERS = {"key_groups": 8}
LONG_AFTER_ALL = datetime(2030, 1, 1, tzinfo=UTC)


def main(home: Path, landing: Path, started: Path) -> None:
    settings = SparkSettings.from_environment()  # of a cluster, where a test has one
    few = {"spark.sql.shuffle.partitions": "2"}
    spark = Runners("spark", build_session(settings.model_copy(update={"conf": {**settings.conf, **few}})))
    started.touch()
    process(spark, Lakehouse(home), landing)


def process(spark, lakehouse, landing):
    ingest(lakehouse, RIDE_POINTS, landing / IN_TIME, max_bytes_per_batch=1, runners=spark)
    job = build_job(JOBS["ride_summaries"], PARAMETERS)
    run_job(lakehouse, job, options=RunOptions(max_bytes_per_batch=1), runners=spark)
    run_job(lakehouse, job, Incremental(advance_to=LONG_AFTER_ALL), runners=spark)
    # Whatever is read from here on is late, in however many runs it comes.
    ingest(lakehouse, RIDE_POINTS, landing / LATE, runners=spark)
    run_job(lakehouse, job, runners=spark)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
