"""The side that stays: starts Spark, warms it up, and keeps it for runs to attach to."""

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
    """Start Spark, warm it up, say where it is in the file `address`, and keep it until told to stop.

    Args:
        settings: of the session; runs that want others start Spark of their own.
        address: the file that `attach` reads; readable for its owner alone, removed at the end.
        warm_up: has the session do what runs will do.
        ready: called when runs may attach.
        stop: ends it.

    Raises:
        KeyfoldError: the master is a cluster's, another warm Spark serves there, the address cannot be written, or Java has ended by itself.
    """
    if not settings.is_local:
        # What attached runs ship would have to outlive them, for executors that come later; and nothing would be saved.
        raise Misconfigured(
            f"a warm Spark runs on one machine, and the master is {settings.master}: on a cluster each run has an "
            "application of its own; unset KEYFOLD_SPARK_MASTER, or do without"
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
                        "the warm Spark's Java process has ended; runs start Spark of their own until it is back"
                    )
        finally:
            # Before Spark goes: nobody is to attach to one that is going.
            address.unlink(missing_ok=True)
            with suppress(Py4JError, OSError):  # where Java has ended, so has Spark
                spark.stop()
