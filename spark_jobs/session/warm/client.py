"""The run's side: attach to a warm Spark, let go of it."""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import spark_jobs
from spark_jobs.errors import KeyfoldError
from spark_jobs.session.code_state import code_state
from spark_jobs.session.settings import SparkSettings, spark_conf
from spark_jobs.session.start import check_same
from spark_jobs.session.warm.address import read

_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


@dataclass
class Attached:
    """A session on a warm Spark."""

    session: SparkSession
    _control: Any
    _server: Any

    def detach(self) -> None:
        """Stop this run's queries and let go; Spark itself stays."""
        for query in self.session.streams.active:
            query.stop()
        gateway: Any = SparkContext._gateway
        SparkContext._active_spark_context = None
        SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = None
        for name in _GATEWAY:
            os.environ.pop(name, None)
        # Java's end first: while it holds its connections open, this side's cannot be closed.
        with suppress(Py4JError):
            self._server.shutdown()
        if gateway is not None:
            gateway.shutdown_callback_server()
            gateway.close()
        self._control.close()


def attach(address: Path, settings: SparkSettings) -> Attached | None:
    """A session on the warm Spark that serves at an address, None where none does.

    Raises:
        KeyfoldError: the warm Spark has other settings.
    """
    found = read(address)
    if found is None or SparkContext._active_spark_context is not None:
        return None
    control = _connect(found["port"], found["secret"])
    try:
        context = control.jvm.org.apache.spark.SparkContext.getOrCreate()
        check_same({pair._1(): pair._2() for pair in context.getConf().getAll()}, spark_conf(settings))
        # A server of its own: in one shared by two runs, Java would call the later one back for both.
        server = control.jvm.org.apache.spark.api.python.Py4JServer(context.getConf())
        server.start()
    except Py4JError as error:
        control.close()
        raise KeyfoldError(f"the warm Spark of {address} does not answer as one: {error}") from error
    except KeyfoldError:
        control.close()
        raise
    os.environ.update(dict(zip(_GATEWAY, (str(server.getListeningPort()), server.secret()), strict=True)))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    gateway: Any = launch_gateway()
    SparkContext._ensure_initialized(gateway=gateway)
    java: Any = gateway.jvm
    conf = SparkConf(loadDefaults=False, _jvm=java).setMaster("warm").setAppName(settings.app_name)
    running = java.JavaSparkContext.fromSparkContext(java.org.apache.spark.SparkContext.getOrCreate())
    spark_context = SparkContext(gateway=gateway, jsc=running, conf=conf)
    spark_context.environment["KEYFOLD_CODE"] = code_state([Path(spark_jobs.__file__).parent])
    return Attached(SparkSession(spark_context).newSession(), control, server)


def _connect(port: int, secret: str) -> Any:
    return ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )
