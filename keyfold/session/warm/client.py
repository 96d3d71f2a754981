"""Attach a run to a warm Spark, and detach it."""

import os
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from keyfold.errors import KeyfoldError, Unreachable
from keyfold.project import code_folders
from keyfold.session.code_state import code_state
from keyfold.session.settings import SparkSettings, spark_conf
from keyfold.session.start import check_same
from keyfold.session.warm.address import WarmAddress, read

HANDSHAKE_SECONDS = 3.0
"""Seconds within which a warm Spark must accept the connection and the secret."""

_ANSWER_SECONDS = 10.0
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


@dataclass
class Attached:
    """A session on a warm Spark."""

    session: SparkSession
    _control: Any
    _server: Any
    _own: Any

    def detach(self) -> None:
        """Stop this run's queries and close its connections. Spark keeps running."""
        for query in self.session.streams.active:
            query.stop()
        _let_go(self._control, self._server, self._own)


def attach(address: Path, settings: SparkSettings) -> Attached:
    """Create a session on a running warm Spark.

    Raises:
        KeyfoldError: this process has a session already, no warm Spark runs at the address, it does not answer in time, or
            it has other settings. This process is unchanged then, and may start its own Spark.
    """
    if SparkContext._active_spark_context is not None:
        raise KeyfoldError(f"this process has a Spark session and cannot attach to the warm Spark of {address} too")
    found = read(address)
    _shake_hands(found, address)
    control, server = _connect(found), None
    # This process's own Java, kept from an earlier session for its next one.
    own, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    try:
        java_conf = _running_conf(control, address)
        check_same({pair._1(): pair._2() for pair in java_conf.getAll()}, spark_conf(settings))
        # Each run has its own server: with a shared one, Java would send all callbacks to the run that connected last.
        server = control.jvm.org.apache.spark.api.python.Py4JServer(java_conf)
        server.start()
        return Attached(_session(server, settings), control, server, own)
    except KeyfoldError:
        _let_go(control, server, own)
        raise
    except Exception as error:  # any failure: the run can start its own Spark
        _let_go(control, server, own)
        text = next(iter(str(error).splitlines()), "")
        raise Unreachable(
            f"the warm Spark of {address} does not answer as one: {type(error).__name__}: {text}"
        ) from error


def _running_conf(control: Any, address: Path) -> Any:
    # Not getOrCreate: if the context was stopped, that would start another with default settings.
    active = getattr(getattr(control.jvm.org.apache.spark, "SparkContext$"), "MODULE$").getActive()
    if active.isEmpty() or active.get().isStopped():
        raise Unreachable(f"the Spark at {address} has been stopped")
    return active.get().getConf()


def _session(server: Any, settings: SparkSettings) -> SparkSession:
    os.environ.update(dict(zip(_GATEWAY, (str(server.getListeningPort()), server.secret()), strict=True)))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    gateway: Any = launch_gateway()
    SparkContext._ensure_initialized(gateway=gateway)
    java: Any = gateway.jvm
    conf = SparkConf(loadDefaults=False, _jvm=java).setMaster("warm").setAppName(settings.app_name)
    running = java.JavaSparkContext.fromSparkContext(java.org.apache.spark.SparkContext.getOrCreate())
    spark_context = SparkContext(gateway=gateway, jsc=running, conf=conf)
    # Spark reuses Python workers with the same environment. After a code change this value differs, and it starts new ones.
    spark_context.environment["KEYFOLD_CODE"] = code_state(code_folders())
    # A new session: settings that one run sets must not affect another.
    return SparkSession(spark_context).newSession()


def _let_go(control: Any, server: Any, own: Any) -> None:
    """Undo `attach`. PySpark's leftovers would keep this process from starting its own Spark."""
    gateway: Any = SparkContext._gateway
    SparkContext._active_spark_context = None
    SparkContext._gateway, SparkContext._jvm = own, own and own.jvm
    SparkSession._instantiatedSession = None
    for name in _GATEWAY:
        os.environ.pop(name, None)
    # Java's side first: this side's connections cannot be closed while Java holds them open.
    if server is not None:
        with suppress(Py4JError):
            server.shutdown()
    if gateway is not None:
        gateway.shutdown_callback_server()
        gateway.close()
    control.close()


def _shake_hands(found: WarmAddress, address: Path) -> None:
    """Check that py4j with this secret listens at the port. Not through py4j, which would wait for ever for an answer."""
    try:
        answer = _greeted(found)
    except TimeoutError:
        raise Unreachable(f"the warm Spark of {address} does not answer within {HANDSHAKE_SECONDS:g} s") from None
    except OSError as error:
        raise Unreachable(f"the warm Spark of {address} does not answer: {error.strerror or error}") from None
    # py4j's answer for success without a value.
    if answer != b"!yv\n":
        raise KeyfoldError(f"the process at the port in {address} is not the warm Spark that wrote it")


def _greeted(found: WarmAddress) -> bytes:
    """Return the first line of the answer to the secret."""
    late = time.monotonic() + HANDSHAKE_SECONDS
    answer = b""
    with socket.create_connection(("127.0.0.1", found.port), HANDSHAKE_SECONDS) as connection:
        # py4j's command for authentication.
        connection.sendall(f"A\n{found.secret}\n".encode())
        while not answer.endswith(b"\n") and len(answer) < 100:
            # The timeout is for the whole answer: a server that sends single bytes must not restart it.
            connection.settimeout(max(0.001, late - time.monotonic()))
            part = connection.recv(100)
            if not part:
                break
            answer += part
    return answer


def _connect(found: WarmAddress) -> Any:
    return ClientServer(
        java_parameters=JavaParameters(
            port=found.port, auth_token=found.secret, auto_convert=True, read_timeout=_ANSWER_SECONDS
        ),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )
