"""TLS and logins against real listeners: they work, what is wrong is refused, and no secret shows anywhere."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.ingestion.kafka import messages
from keyfold.ingestion.kafka.topic import KafkaTopic
from keyfold.lakehouse import Lakehouse
from keyfold.runs import ingest
from tests.kafka_broker import PASSWORD, USER, Broker
from tests.kafka_certificates import KEY_PASSWORD, why_no_certificates
from tests.keyfold.ingestion.kafka.topics import LOCAL, numbers, produce
from tests.landings import EVENTS, event

SECRETS = (PASSWORD, KEY_PASSWORD)

LOGIN = {"sasl.mechanisms": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
WRONG = {"sasl.password": f"wrong-{PASSWORD}", "ssl.key.password": f"wrong-{KEY_PASSWORD}"}


def settings_for(broker: Broker, listener: str) -> dict[str, str]:
    """All that a client of a listener must have."""
    if listener == "LOGIN":
        return {"security.protocol": "SASL_PLAINTEXT", **LOGIN}
    if broker.certificates is None:
        pytest.skip(why_no_certificates())
    trusts = {"ssl.ca.location": str(broker.certificates.authority)}
    if listener == "LOGIN_TLS":
        return {"security.protocol": "SASL_SSL", **trusts, **LOGIN}
    return {
        "security.protocol": "SSL",
        **trusts,
        "ssl.certificate.location": str(broker.certificates.client),
        "ssl.key.location": str(broker.certificates.client_key),
        "ssl.key.password": KEY_PASSWORD,
    }


def as_text(conf: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in conf.items())


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("keyfold.ingestion.kafka.topic.TIMEOUT", 3.0)
    monkeypatch.setattr(messages, "SILENCE", 3.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("listener", ["LOGIN", "LOGIN_TLS", "TLS"])
def test_what_is_right_works_what_is_wrong_is_refused_and_no_secret_shows(
    broker: Broker, tmp_path: Path, monkeypatch, capfd, listener
):
    topic, home = broker.topic(), tmp_path / "home"
    produce(broker, topic, [event("u", 1)])
    conf = settings_for(broker, listener)
    monkeypatch.setenv("KEYFOLD_KAFKA_BOOTSTRAP", broker.address(listener))
    wrong = conf | {name: value for name, value in WRONG.items() if name in conf}
    monkeypatch.setenv("KEYFOLD_KAFKA_CONF", as_text(wrong))
    told: list[str] = []
    with pytest.raises(KeyfoldError, match=r"does not answer|refuses its settings") as refused:
        ingest(Lakehouse(home), EVENTS, KafkaTopic(topic), runners=LOCAL)
    monkeypatch.setenv("KEYFOLD_KAFKA_CONF", as_text(conf))
    source = KafkaTopic(topic)
    ingest(Lakehouse(home), EVENTS, source, runners=LOCAL)
    assert numbers(Lakehouse(home)) == [1]
    told += [str(refused.value), repr(refused.value), repr(source), repr(source.settings), *capfd.readouterr()]
    told += [file.read_bytes().decode("latin-1") for file in home.rglob("*") if file.is_file()]
    assert not [one for one in told if any(secret in one for secret in SECRETS)]


@pytest.mark.long
def test_a_run_with_spark_s_workers_shows_no_secret_in_its_log_its_processes_or_its_home(
    broker: Broker, tmp_path: Path
):
    # A login and a key of one's own, each with a password.
    conf = settings_for(broker, "TLS") | settings_for(broker, "LOGIN_TLS")
    topic, count = broker.topic(partitions=2), 70_000
    reading: dict[str, Any] = {"time": "2026-01-01T00:00:00Z", "temp": 51.5}
    for partition in range(2):
        # Of so many rows that Spark's workers read them, with consumers of their own.
        values = [json.dumps({**reading, "station_id": f"S{at}"}) for at in range(partition, count, 2)]
        produce(broker, topic, values, partition)
    environment = {
        **os.environ,
        "KEYFOLD_KAFKA_BOOTSTRAP": broker.address("LOGIN_TLS"),
        "KEYFOLD_KAFKA_CONF": as_text(conf),
        "KEYFOLD_RUNNER": "spark",
        "KEYFOLD_SPARK_MASTER": "local[2]",
    }
    command = [str(Path(sys.executable).parent / "keyfold"), "ingest", "weather", "--from", f"kafka://{topic}"]
    running = subprocess.Popen(
        [*command, "--home", str(tmp_path)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    arguments: set[str] = set()
    try:
        while running.poll() is None:
            arguments |= arguments_of_family(running.pid)
            time.sleep(0.1)
        log = running.communicate()[0]
    finally:
        running.kill()
    assert running.returncode == 0, log
    assert DeltaTable(str(Lakehouse(tmp_path).events("weather"))).count() == count
    # Java and Python's workers were among those that were looked at.
    assert any("java" in one for one in arguments)
    assert any("pyspark" in one and "worker" in one for one in arguments)
    told = [log, *arguments, *(file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file())]
    assert not [one[:200] for one in told if any(secret in one for secret in SECRETS)]


def arguments_of_family(root: int) -> set[str]:
    """The arguments of a process and of all that came of it, as `ps` shows them to everybody."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    family = {root}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    found = set()
    for one in family:
        try:
            found.add(Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found
