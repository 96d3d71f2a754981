"""What a warm Spark does before runs attach to it: a little of everything that they will do."""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.ingest import ingest
from spark_jobs.jobs.parameters import build_job
from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
from spark_jobs.keyed.runner import run_job
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.simulation.rides import ride_points_table
from spark_jobs.streams import RIDE_POINTS
from spark_jobs.times import ISO_FORMAT

_ROUNDS = 2


def warm_up(spark: SparkSession) -> None:
    """Ingest a few rides and summarise them, in a folder that is thrown away: what runs will do."""
    with tempfile.TemporaryDirectory(prefix="keyfold-warm-", ignore_cleanup_errors=True) as folder:
        lakehouse, landing = Lakehouse(folder), Path(folder) / "landing" / RIDE_POINTS.name
        landing.mkdir(parents=True)
        start = datetime.now(UTC) - timedelta(hours=12)
        for number in range(_ROUNDS):
            points = ride_points_table(20, 50, number, start + number * timedelta(hours=2))
            times = points.with_columns(points["timestamp"].dt.strftime(ISO_FORMAT))
            times.write_ndjson(landing / f"{number}.ndjson")
            ingest(spark, lakehouse, RIDE_POINTS)
            run_job(spark, lakehouse, build_job(RIDE_SUMMARIES))
