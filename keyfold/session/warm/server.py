"""Start a warm Spark, and keep it running for runs to attach to."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from keyfold.errors import Misconfigured, Unreachable
from keyfold.session import SparkSettings, build_session
from keyfold.session.warm.address import WarmAddress, held, write

_LOOK_SECONDS = 1.0


def serve(
    settings: SparkSettings,
    address: Path,
    *,
    warm_up: Callable[[SparkSession], None],
    ready: Callable[[], None],
    stop: threading.Event,
) -> None:
    """Start Spark, warm it up, write its address to a file, and keep it running until `stop` is set.

    Args:
        settings: settings of the session. Runs with other settings start their own Spark.
        address: the file that `attach` reads; readable only for its owner, removed at the end.
        warm_up: called with the session, to do what runs will do.
        ready: called when runs may attach.
        stop: event that ends the warm Spark.

    Raises:
        KeyfoldError: the master is a cluster, another warm Spark has this address, the file cannot be written, or Java has
            ended.
    """
    if not settings.is_local:
        # Packages that a run ships would have to outlive it, for executors that start later, and no time would be saved.
        raise Misconfigured(
            f"a warm Spark runs on one machine, but the master is {settings.master}: on a cluster each run has its own "
            "application; unset KEYFOLD_SPARK_MASTER, or do not use a warm Spark"
        )
    with held(address):
        spark = build_session(settings)
        try:
            warm_up(spark)
            gateway: Any = SparkContext._gateway
            parameters = gateway.gateway_parameters
            write(address, WarmAddress(parameters.port, parameters.auth_token))
            ready()
            while not stop.wait(_LOOK_SECONDS):
                if gateway.proc.poll() is not None:
                    raise Unreachable(
                        "the warm Spark's Java process has ended; runs start their own Spark until it is back"
                    )
        finally:
            # Before Spark stops: no run may attach to a Spark that is stopping.
            address.unlink(missing_ok=True)
            with suppress(Py4JError, OSError):  # if Java has ended, so has Spark
                spark.stop()
