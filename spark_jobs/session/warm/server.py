"""The side that stays: starts Spark, warms it up, and keeps it for runs to attach to."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_jobs.errors import KeyfoldError
from spark_jobs.session import SparkSettings, build_session
from spark_jobs.session.warm.address import read, write


def serve(
    settings: SparkSettings,
    address: Path,
    *,
    warm_up: Callable[[SparkSession], None],
    ready: Callable[[], None],
    stop: threading.Event,
) -> None:
    """Start Spark, warm it up, say where it is in the file `address`, and keep it until told to stop.

    Args:
        settings: of the session; runs that want others start Spark of their own.
        address: the file that `attach` reads; readable for its owner alone, removed at the end.
        warm_up: has the session do what runs will do.
        ready: called when runs may attach.
        stop: ends it.

    Raises:
        KeyfoldError: another warm Spark already serves there.
    """
    if read(address) is not None:
        raise KeyfoldError(f"{address} names a warm Spark that runs already; stop it first")
    spark = build_session(settings)
    try:
        warm_up(spark)
        gateway: Any = SparkContext._gateway
        parameters = gateway.gateway_parameters
        write(address, {"pid": os.getpid(), "port": parameters.port, "secret": parameters.auth_token})
        ready()
        stop.wait()
    finally:
        address.unlink(missing_ok=True)
        spark.stop()
