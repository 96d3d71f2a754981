"""The run's side: attach to a warm Spark, let go of it."""

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
"""Within which it must take a connection and know the secret."""

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
        """Stop this run's queries and let go; Spark itself stays."""
        for query in self.session.streams.active:
            query.stop()
        _let_go(self._control, self._server, self._own)


def attach(address: Path, settings: SparkSettings) -> Attached:
    """A session on the warm Spark that serves at an address; in a process that has no session.

    Raises:
        KeyfoldError: the process has a session, none serves there, it does not answer in time, or it has other settings.
            The process is as it was then, and may start Spark of its own.
    """
    if SparkContext._active_spark_context is not None:
        raise KeyfoldError(f"this process has a Spark session and cannot attach to the warm Spark of {address} too")
    found = read(address)
    _shake_hands(found, address)
    control, server = _connect(found), None
    # The Java of an earlier session of this process's own, which waits for its next one.
    own, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    try:
        java_conf = _running_conf(control, address)
        check_same({pair._1(): pair._2() for pair in java_conf.getAll()}, spark_conf(settings))
        # A server of its own: in one shared by two runs, Java would call the later one back for both.
        server = control.jvm.org.apache.spark.api.python.Py4JServer(java_conf)
        server.start()
        return Attached(_session(server, settings), control, server, own)
    except KeyfoldError:
        _let_go(control, server, own)
        raise
    except Exception as error:  # whatever it is, the run can do without
        _let_go(control, server, own)
        told = next(iter(str(error).splitlines()), "")
        raise Unreachable(
            f"the warm Spark of {address} does not answer as one: {type(error).__name__}: {told}"
        ) from error


def _running_conf(control: Any, address: Path) -> Any:
    # Not getOrCreate: where the context was stopped, that would start one there, with whatever settings.
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
    # Spark keeps Python workers by their environment: where code has changed since, it starts others.
    spark_context.environment["KEYFOLD_CODE"] = code_state(code_folders())
    # A session of its own: settings that a run sets must not be another run's.
    return SparkSession(spark_context).newSession()


def _let_go(control: Any, server: Any, own: Any) -> None:
    """Leave this process as if it had never attached: with what is left behind, a Spark of its own would not start."""
    gateway: Any = SparkContext._gateway
    SparkContext._active_spark_context = None
    SparkContext._gateway, SparkContext._jvm = own, own and own.jvm
    SparkSession._instantiatedSession = None
    for name in _GATEWAY:
        os.environ.pop(name, None)
    # Java's end first: while it holds its connections open, this side's cannot be closed.
    if server is not None:
        with suppress(Py4JError):
            server.shutdown()
    if gateway is not None:
        gateway.shutdown_callback_server()
        gateway.close()
    control.close()


def _shake_hands(found: WarmAddress, address: Path) -> None:
    """See that what listens there is py4j with this secret, without py4j: that waits for an answer for ever."""
    try:
        answer = _greeted(found)
    except TimeoutError:
        raise Unreachable(f"the warm Spark of {address} does not answer within {HANDSHAKE_SECONDS:g} s") from None
    except OSError as error:
        raise Unreachable(f"the warm Spark of {address} does not answer: {error.strerror or error}") from None
    if answer != b"!yv\n":
        raise KeyfoldError(f"what listens where {address} says is not the warm Spark that wrote it")


def _greeted(found: WarmAddress) -> bytes:
    """What it answers to the secret, up to the end of a line."""
    late = time.monotonic() + HANDSHAKE_SECONDS
    answer = b""
    with socket.create_connection(("127.0.0.1", found.port), HANDSHAKE_SECONDS) as connection:
        connection.sendall(f"A\n{found.secret}\n".encode())
        while not answer.endswith(b"\n") and len(answer) < 100:
            # One that sends a byte now and then does not get the whole time anew for each.
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
