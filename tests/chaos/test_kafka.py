"""Kafka under faults, while ingest goes on: a broker stopped, killed, frozen and restored older, a log cut at either end.

What must be there is what a plain reader of the topic finds in the end, and what it found before messages were taken away.
"""

import json
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest_totals
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.ingestion.kafka.topic import KafkaTopic
from keyfold.lakehouse import Lakehouse
from keyfold.runs import ingest, ingest_continuously
from tests.kafka_broker import Broker, broker_or_skip
from tests.landings import EVENTS, event, local_runners
from tests.waiting import wait_until

PROMISE = "Kafka: each message of a topic once, whatever becomes of its broker"

pytestmark = pytest.mark.chaos

LOCAL: Any = local_runners(2)
# Without an id, so that none is dropped as a copy: what comes twice shows.
PLAIN = replace(EVENTS, event_id=())
PARTITIONS = 2


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker_or_skip(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """So that an outage is one after a second, and not after a quarter of a minute."""
    monkeypatch.setattr("keyfold.ingestion.kafka.topic.TIMEOUT", 1.5)
    monkeypatch.setattr("keyfold.ingestion.kafka.messages.SILENCE", 3.0)
    monkeypatch.setattr("keyfold.ingestion.kafka.topic.PAUSE", 0.2)


class Sender(threading.Thread):
    """Sends numbered events all the time; those that were not taken are sent again, each once (idempotence)."""

    def __init__(self, broker: Broker, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = broker.producer(**{"enable.idempotence": True, "delivery.timeout.ms": 300_000})
        self._topic, self._stop_asked, self.sent = topic, threading.Event(), 0
        self.start()

    def run(self) -> None:
        while not self._stop_asked.is_set():
            value = json.dumps(event("u", self.sent)).encode()
            self._producer.produce(self._topic, value, partition=self.sent % PARTITIONS)
            self.sent += 1
            self._producer.poll(0)
            time.sleep(0.003)

    def stop(self) -> None:
        """Wait until all are taken."""
        self._stop_asked.set()
        self.join()
        assert self._producer.flush(120) == 0


@contextmanager
def going_on(lakehouse: Lakehouse, source: KafkaTopic, stream=PLAIN, **more) -> Iterator[dict[str, Any]]:
    """Ingest in a thread; gives where its error is put, if it ends with one."""
    stop, ended = threading.Event(), {}

    def run() -> None:
        try:
            ingest_continuously(
                lakehouse, stream, source, every=timedelta(milliseconds=20), stop=stop, **more, runners=LOCAL
            )
        except Exception as error:
            ended["error"] = error

    running = threading.Thread(target=run)
    running.start()
    ended["running"] = running
    try:
        yield ended
    finally:
        stop.set()
        running.join(120)


def goes_on(ended: dict[str, Any]) -> bool:
    """Whether ingest has not ended with an error, which is told."""
    assert "error" not in ended, ended["error"]
    return True


def reading(broker: Broker, topic: str, **options: Any) -> KafkaTopic:
    return KafkaTopic(topic, settings=KafkaSettings(broker.bootstrap), **options)


def in_topic(broker: Broker, topic: str) -> Counter[Any]:
    """All that a plain reader finds in a topic."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "oracle", "log_level": 0})
    found: Counter[Any] = Counter()
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    for partition in partitions:
        place = TopicPartition(topic, partition)
        first, end = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([TopicPartition(topic, partition, first)])
        position = first
        while position < end:
            for message in consumer.consume(500, timeout=1):
                assert message.error() is None, message.error()
                found[json.loads(message.value() or b"")["seq"]] += 1
                position = (message.offset() or 0) + 1
    consumer.close()
    return found


def in_table(lakehouse: Lakehouse) -> Counter[Any]:
    """All that is in the event table."""
    rows = DeltaTable(str(lakehouse.events("clicks"))).to_pyarrow_table()
    return Counter(rows.column("seq").to_pylist())


def produce(broker: Broker, topic: str, numbers: range, partition: int = 0) -> None:
    producer = broker.producer()
    for number in numbers:
        producer.produce(topic, json.dumps(event("u", number)).encode(), partition=partition)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL", "SIGSTOP"])
def test_a_broker_is_stopped_and_comes_back_while_messages_come_and_are_read(broker, tmp_path, tally, how):
    told = tally(f"the broker gets {how} and comes back")
    tries = 3
    topic, lakehouse = broker.topic(PARTITIONS), Lakehouse(tmp_path)
    sender = Sender(broker, topic)
    outages: list[str] = []
    with going_on(lakehouse, reading(broker, topic), on_warning=outages.append) as ended:
        for number in range(1, tries + 1):
            before = ingest_totals(lakehouse, PLAIN).accepted
            wait_until(lambda least=before: goes_on(ended) and ingest_totals(lakehouse, PLAIN).accepted > least + 50)
            if how == "SIGSTOP":
                broker.process.send_signal(signal.SIGSTOP)
                time.sleep(5)
                broker.process.send_signal(signal.SIGCONT)
            else:
                broker.stop(signal.Signals[how])
                wait_until(lambda least=number: goes_on(ended) and len(outages) >= 2 * least - 1)
                broker.start()
        sender.stop()
        wait_until(lambda: goes_on(ended) and ingest_totals(lakehouse, PLAIN).accepted >= sender.sent)
    expected = Counter(range(sender.sent))
    assert in_topic(broker, topic) == expected
    for _ in range(tries):
        told.count(expected, in_table(lakehouse), how)


def test_a_broker_is_restored_from_an_older_copy_and_its_topic_ends_before_what_was_read(broker, tmp_path, tally):
    told = tally("the log is cut at its end (a broker restored older)")
    topic, lakehouse = broker.topic(1), Lakehouse(tmp_path / "home")
    data, copy = broker.folder / "data", tmp_path / "copy"
    produce(broker, topic, range(20))
    broker.stop(signal.SIGTERM)
    shutil.copytree(data, copy)
    broker.start()
    produce(broker, topic, range(20, 40))
    with going_on(lakehouse, reading(broker, topic), stream=EVENTS) as ended:
        wait_until(lambda: ingest_totals(lakehouse, EVENTS).accepted == 40)
        broker.stop(signal.SIGKILL)
        shutil.rmtree(data)
        shutil.copytree(copy, data)
        broker.start()
        wait_until(lambda: "error" in ended)
    assert "partition 0 was read up to offset 40, but now ends at 20: it was truncated" in str(ended["error"])
    # The producers send again what was lost, and more.
    produce(broker, topic, range(20, 60))
    if "it was truncated" in (again := refusal(lakehouse, broker, topic)):
        raise AssertionError(again)
    ingest(lakehouse, EVENTS, reading(broker, topic, reset=True), runners=LOCAL)
    told.count(Counter(range(60)), in_table(lakehouse), refused=True)


def refusal(lakehouse: Lakehouse, broker: Broker, topic: str) -> str:
    """What a run without options says; empty where it finds the topic long enough."""
    try:
        ingest(lakehouse, EVENTS, reading(broker, topic), runners=LOCAL)
    except KeyfoldError as error:
        return str(error)
    return ""


def test_partitions_appear_while_messages_come_and_are_read(broker, tmp_path, tally):
    told = tally("partitions are added")
    topic, lakehouse = broker.topic(1), Lakehouse(tmp_path)
    with going_on(lakehouse, reading(broker, topic)):
        for partitions in range(1, 6):
            if partitions > 1:
                broker.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
            for partition in range(partitions):
                first = 100 * partitions + 10 * partition
                wait_until(lambda: takes(broker, topic, range(first, first + 10), partition))  # noqa: B023 - called at once
            wait_until(lambda: in_topic(broker, topic).total() == ingest_totals(lakehouse, PLAIN).accepted)
            told.count(in_topic(broker, topic), in_table(lakehouse), f"{partitions} partitions")


def takes(broker: Broker, topic: str, numbers: range, partition: int) -> bool:
    """Send events once the partition is known everywhere."""
    if partition not in broker.admin.list_topics(topic, timeout=10).topics[topic].partitions:
        return False
    produce(broker, topic, numbers, partition)
    return True
