"""The side that stays: starts Spark, warms it up, and keeps it for runs to attach to."""

import os
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_jobs.errors import KeyfoldError
from spark_jobs.ingest import ingest
from spark_jobs.jobs.parameters import build_job
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.keyed.runner import run_job
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.session import SparkSettings, build_session
from spark_jobs.simulation.rides import ride_points_table
from spark_jobs.streams import RIDE_POINTS
from spark_jobs.warm.address import read, write

_WARM_UP_ROUNDS = 2


def serve(settings: SparkSettings, address: Path, *, ready: Callable[[], None], stop: threading.Event) -> None:
    """Start Spark, warm it up, say where it is in the file `address`, and keep it until told to stop.

    Args:
        settings: of the session; runs that want others start Spark of their own.
        address: the file that `attach` reads; readable for its owner alone, removed at the end.
        ready: called when runs may attach.
        stop: ends it.

    Raises:
        KeyfoldError: another warm Spark already serves there.
    """
    if read(address) is not None:
        raise KeyfoldError(f"{address} names a warm Spark that runs already; stop it first")
    spark = build_session(settings)
    try:
        _warm_up(spark)
        gateway: Any = SparkContext._gateway
        parameters = gateway.gateway_parameters
        write(address, {"pid": os.getpid(), "port": parameters.port, "secret": parameters.auth_token})
        ready()
        stop.wait()
    finally:
        address.unlink(missing_ok=True)
        spark.stop()


def _warm_up(spark: SparkSession) -> None:
    """Ingest a few rides and summarise them, in a folder that is thrown away: what runs will do."""
    with tempfile.TemporaryDirectory(prefix="keyfold-warm-", ignore_cleanup_errors=True) as folder:
        lakehouse = Lakehouse(Path(folder))
        landing = lakehouse.landing(RIDE_POINTS.name)
        landing.mkdir(parents=True)
        start = datetime.now(UTC) - timedelta(hours=12)
        for number in range(_WARM_UP_ROUNDS):
            points = ride_points_table(20, 50, number, start + number * timedelta(hours=2))
            times = points.with_columns(points["timestamp"].dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
            times.write_ndjson(landing / f"{number}.ndjson")
            ingest(spark, lakehouse, RIDE_POINTS)
            run_job(spark, lakehouse, build_job(RIDE_SUMMARIES))
