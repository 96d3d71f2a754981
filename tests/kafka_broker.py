"""A real Kafka broker for tests, on loopback: `python -m tests.kafka_broker` fetches its jars, `Broker` runs them.

Its jars come by Maven, with the user's own mirrors and proxies, and are held to `kafka_jars.sha256`. Without Maven, or
without a network, tests that need a broker are skipped and say why.
"""

import base64
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.kafka_certificates import Certificates, make_certificates, why_no_certificates
from tests.maven_jars import MavenJars
from tests.ports import free_port, wait_for_port

VERSION = "4.1.0"
JARS = MavenJars(
    who="Kafka broker",
    what=f"Kafka {VERSION} (43 MB when none is cached)",
    folder=Path(sys.prefix) / f"kafka-{VERSION}",
    lock=Path(__file__).with_name("kafka_jars.sha256"),
    dependency=("org.apache.kafka", "kafka_2.13", VERSION),
)

USER, PASSWORD = "keyfold", "planted-kafka-password"
"""Of the listener that asks for a login."""

LISTENERS = {"PLAINTEXT": "PLAINTEXT", "LOGIN": "SASL_PLAINTEXT", "TLS": "SSL", "LOGIN_TLS": "SASL_SSL"}
"""Its listeners, and how each is spoken to."""

_JAVA = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{JARS.folder}/*")
_SETTINGS = "server.properties"
_SECONDS = 60


def why_not() -> str:
    """Why there is no broker here; empty where there is one."""
    return JARS.why_not("python -m tests.kafka_broker")


@dataclass
class Broker:
    """A broker that runs; its topics are made by tests and never shared.

    Attributes:
        folder: of its settings and data.
        ports: of its listeners, by `LISTENERS`.
        certificates: None where there is no openssl; TLS and LOGIN_TLS are not to be had then.
        process: it, while it runs.
    """

    folder: Path
    ports: dict[str, int]
    certificates: Certificates | None
    process: "subprocess.Popen[bytes]"
    _clients: dict[str, AdminClient] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return self.address("PLAINTEXT")

    def address(self, listener: str) -> str:
        """Where a listener is: PLAINTEXT; LOGIN, which asks for a login; TLS, for a client's certificate; LOGIN_TLS."""
        return f"127.0.0.1:{self.ports[listener]}"

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop it, by default as a power cut does; what it holds stays."""
        self.process.send_signal(how)
        self.process.wait()

    def start(self) -> None:
        """Start it again, at the same addresses."""
        self.process = _start(self.folder)
        for listener in self.ports:
            wait_for_port(self.ports[listener], self.process, self.folder / "broker.log", _SECONDS)
        # The port is open before the broker knows its topics; a client that was cut off says so for a while.
        until = time.monotonic() + _SECONDS
        while not self._answers():
            assert time.monotonic() < until, "the broker does not answer"

    def _answers(self) -> bool:
        try:
            return bool(self.admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    @property
    def admin(self) -> AdminClient:
        return self._clients.setdefault("admin", AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}))

    def producer(self, **settings: object) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, "linger.ms": 1} | settings)

    def topic(self, partitions: int = 1, name: str = "", config: dict[str, str] | None = None) -> str:
        """Make a topic of a name that none has, unless it is given one."""
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        self.admin.create_topics([NewTopic(name, partitions, 1, config=config or {})])[name].result()
        until = time.monotonic() + _SECONDS
        while (found := self.admin.list_topics(timeout=5).topics.get(name)) is None or len(
            found.partitions
        ) < partitions:
            assert time.monotonic() < until, f"{name} does not come"
            time.sleep(0.02)
        return name

    def end(self, name: str, isolation: IsolationLevel) -> int:
        """Where the first partition of a topic ends for a reader of committed, or of all, messages."""
        place = TopicPartition(name, 0)
        asked: Any = {place: OffsetSpec.latest()}
        return self.admin.list_offsets(asked, isolation_level=isolation)[place].result().offset

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result()
        until = time.monotonic() + _SECONDS
        while name in self.admin.list_topics(timeout=5).topics:
            assert time.monotonic() < until, f"{name} does not go"
            time.sleep(0.05)


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """Start a broker below a folder, and stop it."""
    certificates = None if why_no_certificates() else make_certificates(folder / "certificates")
    listeners = {name: kind for name, kind in LISTENERS.items() if certificates or "TLS" not in name}
    ports = {name: free_port() for name in listeners}
    (folder / _SETTINGS).write_text(_settings(folder, listeners, ports, free_port(), certificates))
    # Its first sign is given: one in 64 would be a dash, which the tool takes for an option.
    cluster = "K" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
    with (folder / "broker.log").open("wb") as log:
        tool = [*_JAVA, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(folder / _SETTINGS)]
        subprocess.run(tool, check=True, stdout=log, stderr=log)
    broker = Broker(folder, ports, certificates, _start(folder))
    try:
        for port in ports.values():
            wait_for_port(port, broker.process, folder / "broker.log", _SECONDS)
        yield broker
        # While Python is whole: see `keyfold.ingestion.kafka.topic`.
        broker._clients.clear()
    finally:
        broker.process.kill()
        broker.process.wait()


@contextmanager
def broker_or_skip(folder: Path) -> Iterator[Broker]:
    """The same, but skip the test where no broker can run."""
    if reason := why_not():
        pytest.skip(reason)
    with running_broker(folder) as running:
        yield running


def _start(folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "broker.log").open("ab") as log:
        return subprocess.Popen([*_JAVA, "kafka.Kafka", str(folder / _SETTINGS)], stdout=log, stderr=log)


def _settings(
    folder: Path,
    listeners: dict[str, str],
    ports: dict[str, int],
    controller_port: int,
    certificates: Certificates | None,
) -> str:
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    addresses = {**ports, "CONTROLLER": controller_port}
    tls = (
        (
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={certificates.broker}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={certificates.authority}",
            "listener.name.tls.ssl.client.auth=required",
        )
        if certificates
        else ()
    )
    return "\n".join(
        (
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller_port}",
            "listeners=" + ",".join(f"{name}://127.0.0.1:{port}" for name, port in addresses.items()),
            "listener.security.protocol.map="
            + ",".join(f"{name}:{kind}" for name, kind in {**listeners, "CONTROLLER": "PLAINTEXT"}.items()),
            "controller.listener.names=CONTROLLER",
            "inter.broker.listener.name=PLAINTEXT",
            "sasl.enabled.mechanisms=PLAIN",
            f"listener.name.login.plain.sasl.jaas.config={login}",
            f"listener.name.login_tls.plain.sasl.jaas.config={login}",
            *tls,
            f"log.dirs={folder / 'data'}",
            "auto.create.topics.enable=false",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "transaction.state.log.num.partitions=1",
            "log.cleaner.backoff.ms=200",
            "log.initial.task.delay.ms=100",
        )
    )


if __name__ == "__main__":
    sys.exit(JARS.fetch())
