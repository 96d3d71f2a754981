"""A local Spark serves its blocks, which may have secrets, to nobody who does not know its secret: not to a user of the machine."""

import os
import re
import socket
import struct
from contextlib import closing
from typing import Any

import pytest

from keyfold.runners import Runners
from keyfold.session.redaction import SENSITIVE
from keyfold.session.settings import SparkSettings, spark_conf

RPC, ANSWER, FAILURE, CHUNK, CHUNK_OF_BLOCK = 3, 4, 5, 0, 1
OPEN_BLOCKS = 0


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


class Stranger:
    """A client of Spark's block transfer that has no secret: speaks the protocol of `NettyBlockTransferService`."""

    def __init__(self, spark: Runners) -> None:
        java: Any = spark.session.sparkContext._jvm
        here = java.org.apache.spark.SparkEnv.get().blockManager().blockManagerId()
        self._app = spark.session.sparkContext.applicationId
        self._socket = socket.create_connection((here.host(), here.port()), timeout=20)

    def block(self, name: str) -> bytes:
        """Ask for a block; returns its content, or raises PermissionError with what Spark answers."""
        opened = bytes([OPEN_BLOCKS]) + text(self._app) + text("driver") + struct.pack(">i", 1) + text(name)
        kind, answer = self._ask(RPC, struct.pack(">qi", 7, len(opened)) + opened)
        if kind != ANSWER:
            raise PermissionError(answer.decode(errors="replace"))
        stream = answer[13:21]
        kind, content = self._ask(CHUNK, stream + struct.pack(">i", 0))
        assert kind == CHUNK_OF_BLOCK
        return content

    def _ask(self, kind: int, message: bytes) -> tuple[int, bytes]:
        self._socket.sendall(struct.pack(">qb", 9 + len(message), kind) + message)
        (length,) = struct.unpack(">q", self._received(8))
        answer = self._received(length - 8)
        return answer[0], answer[1:]

    def _received(self, length: int) -> bytes:
        content = b""
        while len(content) < length:
            more = self._socket.recv(length - len(content))
            if not more:
                raise PermissionError("Spark has closed the connection")
            content += more
        return content

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_every_local_session_authenticates_with_a_secret_that_no_setting_has(master):
    conf = spark_conf(SparkSettings(master=master))
    assert conf["spark.authenticate"] == "true"
    assert not [name for name in conf if "secret" in name]


def test_a_block_of_a_live_session_is_refused_to_a_client_without_its_secret(spark):
    planted = os.urandom(64).hex().encode()
    there = spark.session.sparkContext.broadcast(planted)
    try:
        assert spark.session.sparkContext.runJob(
            spark.session.sparkContext.parallelize([0], 1), lambda _: [there.value]
        ) == [planted]
        number = there._jbroadcast.id()
        with closing(Stranger(spark)) as stranger, pytest.raises(PermissionError, match=r"(?i)sasl|auth|closed the"):
            stranger.block(f"broadcast_{number}_piece0")
    finally:
        there.destroy()


@pytest.mark.one_machine
def test_the_settings_of_a_live_session_have_its_secret_nowhere(spark):
    conf = dict(spark.session.sparkContext.getConf().getAll())
    assert conf["spark.authenticate"] == "true"
    assert conf["spark.redaction.regex"] == SENSITIVE
    java = spark.session.sparkContext._jvm.org.apache.spark.SparkEnv.get()
    secret = java.securityManager().getSecretKey()
    assert len(secret) >= 32
    assert secret not in str(conf)
    assert secret not in str(dict(os.environ))
    # What the page of the environment and an event log have.
    shown = [str(pair) for pair in (spark.session.sparkContext._jvm.java.lang.System.getProperties().toString(), conf)]
    assert not [text for text in shown if secret in text]
    assert re.search(SENSITIVE, "spark.authenticate.secret")
