"""Ingest from a real broker: every message once, whatever it goes through. What was produced is the oracle."""

import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.ingestion import batch, ingest_journal, ingest_totals, is_unfinished, rebuild
from keyfold.ingestion.kafka import messages
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.ingestion.kafka.offsets import MESSAGE_BYTES
from keyfold.ingestion.kafka.topic import KafkaTopic
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.runs import ingest, ingest_continuously
from keyfold.stream import INGESTED_AT, Source
from tests.kafka_broker import Broker
from tests.keyfold.ingestion.kafka.topics import LOCAL, numbers, produce, quarantine
from tests.landings import EVENTS, check_counts, event, land
from tests.power_cuts import OF_INGEST, power_cut_at
from tests.waiting import wait_until


def reading(broker: Broker, topic: str, **options: Any) -> KafkaTopic:
    return KafkaTopic(topic, settings=KafkaSettings(broker.bootstrap), **options)


def lose(broker: Broker, topic: str, before: int) -> None:
    """What retention does, at once."""
    partition = TopicPartition(topic, 0, before)
    broker.admin.delete_records([partition])[partition].result()


# At any point, and any number of times, without a broker: `tests/keyfold/ingestion/test_window.py`.
@pytest.mark.parametrize("point", OF_INGEST[::4])
def test_each_message_comes_once_wherever_a_run_is_killed(broker: Broker, tmp_path: Path, point: str):
    topic, lakehouse = broker.topic(partitions=2), Lakehouse(tmp_path)
    source = reading(broker, topic)
    produce(broker, topic, [event("u", seq) for seq in range(0, 40, 2)], 0)
    produce(broker, topic, [*(event("u", seq) for seq in range(1, 40, 2)), "rubbish", event("u", 3)], 1)
    small = 15 * MESSAGE_BYTES
    with power_cut_at(point, 2 if point == "commit: one table" else 1):
        ingest(lakehouse, EVENTS, source, max_bytes_per_batch=small, runners=LOCAL)
    # What comes meanwhile is not part of the plan that is played again.
    produce(broker, topic, [event("u", 100)], 0)
    planned = [plan.topic for plan in ingest_journal(lakehouse, "clicks").pending()]
    unfinished = is_unfinished(lakehouse, "clicks")
    check_counts(lakehouse, ingest(lakehouse, EVENTS, source, max_bytes_per_batch=small, runners=LOCAL))
    assert unfinished or not planned
    assert numbers(lakehouse) == [*range(40), 100]
    assert [(row["raw"], row["file"], row["line"]) for row in quarantine(lakehouse)] == [
        ("rubbish", f"kafka://{topic}/1", 20)
    ]
    totals = ingest_totals(lakehouse, EVENTS)
    assert (totals.rows_read, totals.duplicates, totals.files) == (43, 1, 0)
    again = ingest(lakehouse, EVENTS, source, runners=LOCAL)
    assert (again.rows_read, again.batches) == (0, 0)


def test_aborted_and_open_transactions_are_not_read_and_their_marks_are_passed_over(
    broker: Broker, lakehouse: Lakehouse
):
    topic = broker.topic()
    source = reading(broker, topic)
    producer = broker.producer(**{"transactional.id": f"writer-{topic}"})
    producer.init_transactions(30)
    for number, is_kept in enumerate((True, False, True, False)):
        producer.begin_transaction()
        for seq in range(number * 10, number * 10 + 5):
            producer.produce(topic, json.dumps(event("u", seq)))
        producer.flush()
        producer.commit_transaction(30) if is_kept else producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, json.dumps(event("u", 99)))
    producer.flush()
    # Brokers write a transaction's mark a moment after they have answered: up to the open one all must be there.
    wait_until(lambda: broker.end(topic, IsolationLevel.READ_COMMITTED) == 24)
    check_counts(lakehouse, ingest(lakehouse, EVENTS, source, runners=LOCAL))
    assert numbers(lakehouse) == [*range(5), *range(20, 25)]
    # One offset a batch: most hold nothing but a mark, or what was aborted.
    other = Lakehouse(lakehouse.home / "other")
    ingest(other, EVENTS, source, max_bytes_per_batch=MESSAGE_BYTES, runners=LOCAL)
    assert numbers(other) == numbers(lakehouse)
    assert len(ingest_journal(other, "clicks").recent()) == 24
    producer.commit_transaction(30)
    wait_until(lambda: broker.end(topic, IsolationLevel.READ_COMMITTED) == 26)
    ingest(lakehouse, EVENTS, source, runners=LOCAL)
    assert numbers(lakehouse)[-1] == 99


def test_a_first_run_begins_at_a_time(broker: Broker, lakehouse: Lakehouse):
    topic = broker.topic()
    noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    for seq in range(6):
        at = int((noon + timedelta(minutes=seq)).timestamp() * 1000)
        produce(broker, topic, [event("u", seq)], timestamp=at)
    ingest(lakehouse, EVENTS, reading(broker, topic, start=noon + timedelta(minutes=4)), runners=LOCAL)
    assert numbers(lakehouse) == [4, 5]


def test_messages_that_retention_took_are_an_error_or_a_row_in_quarantine(broker: Broker, lakehouse: Lakehouse):
    topic = broker.topic()
    produce(broker, topic, [event("u", seq) for seq in range(4)])
    ingest(lakehouse, EVENTS, reading(broker, topic), runners=LOCAL)
    produce(broker, topic, [event("u", seq) for seq in range(4, 10)])
    lose(broker, topic, 7)
    with pytest.raises(KeyfoldError, match=r"offsets 4 to 6 of partition 0 were deleted .*--on-gap record"):
        ingest(lakehouse, EVENTS, reading(broker, topic), runners=LOCAL)
    check_counts(lakehouse, ingest(lakehouse, EVENTS, reading(broker, topic, on_gap="record"), runners=LOCAL))
    assert numbers(lakehouse) == [0, 1, 2, 3, 7, 8, 9]
    [gap] = quarantine(lakehouse)
    assert (gap["file"], gap["line"]) == (f"kafka://{topic}/0", 4)
    assert gap["reason"].startswith("offsets 4 to 6 were deleted by Kafka before they were read")


def test_messages_that_go_between_plan_and_reading_are_found_out(broker: Broker, lakehouse: Lakehouse):
    topic = broker.topic()
    produce(broker, topic, [event("u", seq) for seq in range(10)])
    with power_cut_at("plan: after"):
        ingest(lakehouse, EVENTS, reading(broker, topic), runners=LOCAL)
    lose(broker, topic, 6)
    with pytest.raises(KeyfoldError, match=r"offsets 0 to 5 of partition 0 were deleted"):
        ingest(lakehouse, EVENTS, reading(broker, topic), runners=LOCAL)
    check_counts(lakehouse, ingest(lakehouse, EVENTS, reading(broker, topic, on_gap="record"), runners=LOCAL))
    assert numbers(lakehouse) == [6, 7, 8, 9]
    assert [row["line"] for row in quarantine(lakehouse)] == [0]


def test_a_topic_made_anew_is_refused_until_it_is_said_to_be_another(broker: Broker, lakehouse: Lakehouse):
    topic = broker.topic()
    produce(broker, topic, [event("u", seq) for seq in range(3)])
    ingest(lakehouse, EVENTS, reading(broker, topic), runners=LOCAL)
    produce(broker, topic, [event("u", 50)])
    with power_cut_at("plan: after"):
        ingest(lakehouse, EVENTS, reading(broker, topic), runners=LOCAL)
    broker.delete_topic(topic)
    broker.topic(name=topic)
    produce(broker, topic, [event("v", seq) for seq in range(10, 15)])
    with pytest.raises(KeyfoldError, match=r"is not the one that was read before"):
        ingest(lakehouse, EVENTS, reading(broker, topic), runners=LOCAL)
    for _ in range(2):
        check_counts(lakehouse, ingest(lakehouse, EVENTS, reading(broker, topic, reset=True), runners=LOCAL))
        assert numbers(lakehouse) == [0, 1, 2, 10, 11, 12, 13, 14]
    # What was planned of the old one and never read is told.
    assert [(row["file"], row["line"]) for row in quarantine(lakehouse)] == [(f"kafka://{topic}/0", 3)]


def test_a_tombstone_is_an_event_of_a_stream_with_a_column_for_it(broker: Broker, lakehouse: Lakehouse):
    topic, schema = broker.topic(), EVENTS.schema.append(pa.field("deleted", pa.bool_()))
    nullable = pa.schema([one.with_nullable(one.name not in ("user", "at")) for one in schema])
    stream = replace(
        EVENTS,
        schema=nullable,
        event_id=(),
        rules=(),
        sources={"user": Source("kafka_key"), "at": Source("kafka_timestamp"), "deleted": Source("kafka_tombstone")},
    )
    produce(broker, topic, [event("lies", 1), None, "{}", "rubbish", event("lies", 2)], key="ann")
    produce(broker, topic, [None])
    ingest(lakehouse, stream, reading(broker, topic), runners=LOCAL)
    table = pl.read_delta(str(lakehouse.events("clicks"))).sort("seq", "deleted", nulls_last=True)
    assert table.select("user", "seq", "deleted").rows() == [
        ("ann", 1, False),
        ("ann", 2, False),
        ("ann", None, False),
        ("ann", None, True),
    ]
    # One without a key lacks what the stream needs, as any message would.
    assert {one["reason"].partition(":")[0] for one in quarantine(lakehouse)} == {"not valid JSON", "user is missing"}


def test_keys_headers_and_the_broker_s_time_come_along(broker: Broker, lakehouse: Lakehouse):
    topic = broker.topic(config={"message.timestamp.type": "LogAppendTime"})
    stream = replace(
        EVENTS,
        sources={"user": Source(("kafka_key",)), "note": Source(("kafka_header.trace",)), "at": Source(("at",))},
    )
    before = datetime.now(UTC)
    produce(broker, topic, [event("lies", 1), "rubbish"], key="ann", headers=[("trace", b"old"), ("trace", b"new")])
    produce(broker, topic, [event("lies", 2)], key=b"\xff", headers={"other": b"x"})
    time.sleep(0.3)
    ingest(lakehouse, stream, reading(broker, topic), runners=LOCAL)
    [row] = DeltaTable(str(lakehouse.events("clicks"))).to_pyarrow_table().to_pylist()
    assert (row["user"], row["seq"], row["note"]) == ("ann", 1, "new")
    plan = ingest_journal(lakehouse, "clicks").plan(0)
    assert plan is not None
    # A broker counts milliseconds.
    assert before - timedelta(milliseconds=1) <= row[INGESTED_AT] < plan.planned_at - timedelta(milliseconds=200)
    assert [one["reason"].partition(":")[0] for one in quarantine(lakehouse)] == [
        "not valid JSON",
        "kafka_key is not UTF-8",
    ]
    # What was appended before the plan before: it did not arrive before what that plan has read.
    produce(broker, topic, [event("lies", 3)], key="ann")
    journal = ingest_journal(lakehouse, "clicks")
    with power_cut_at("plan: before"):
        ingest(lakehouse, stream, reading(broker, topic), runners=LOCAL)
    land(lakehouse.landing("clicks") / "a.json", [event("file", 4)])
    ingest(lakehouse, stream, runners=LOCAL)
    ingest(lakehouse, stream, reading(broker, topic), runners=LOCAL)
    last = journal.last_done()
    assert last is not None
    before_last = journal.plan(last.batch - 1)
    assert before_last is not None
    found = DeltaTable(str(lakehouse.events("clicks"))).to_pyarrow_table().to_pylist()
    assert next(one[INGESTED_AT] for one in found if one["seq"] == 3) == before_last.planned_at


def test_spark_s_workers_read_their_shares(spark: Runners, broker: Broker, lakehouse: Lakehouse):
    topic = broker.topic(partitions=3)
    for partition in range(3):
        produce(broker, topic, [event("u", seq * 3 + partition) for seq in range(200)], partition)
    with patch.multiple(batch, _SPLIT_BYTES=1):
        check_counts(lakehouse, ingest(lakehouse, EVENTS, reading(broker, topic), runners=spark))
    assert numbers(lakehouse) == [*range(600)]
    assert len(DeltaTable(str(lakehouse.events("clicks"))).file_uris()) == 2


def test_a_rebuild_reads_topics_and_folders_again(broker: Broker, lakehouse: Lakehouse):
    topic = broker.topic()
    produce(broker, topic, [event("u", seq) for seq in range(5)])
    land(lakehouse.landing("clicks") / "a.json", [event("u", 20)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEYFOLD_KAFKA_BOOTSTRAP", broker.bootstrap)
        ingest(lakehouse, EVENTS, KafkaTopic(topic), runners=LOCAL)
        ingest(lakehouse, EVENTS, runners=LOCAL)
        lose(broker, topic, 2)
        summary = rebuild(lakehouse, EVENTS, runners=LOCAL)
    assert numbers(lakehouse) == [2, 3, 4, 20]
    assert any("Kafka has partition 0 only from offset 2 on" in one for one in summary.warnings)


def test_continuous_ingest_waits_for_a_broker_that_is_away_and_loses_and_doubles_nothing(
    broker: Broker, lakehouse: Lakehouse, monkeypatch
):
    monkeypatch.setattr("keyfold.ingestion.kafka.topic.TIMEOUT", 1.0)
    monkeypatch.setattr("keyfold.ingestion.kafka.topic.PAUSE", 0.1)
    # Without an id, so that none would be dropped as a copy.
    topic, stream, stop, told = broker.topic(), replace(EVENTS, event_id=()), threading.Event(), []
    running = threading.Thread(
        target=ingest_continuously,
        args=(lakehouse, stream, reading(broker, topic)),
        kwargs={"stop": stop, "runners": LOCAL, "every": timedelta(milliseconds=20), "on_warning": told.append},
    )
    running.start()
    try:
        produce(broker, topic, [event("u", seq) for seq in range(3)])
        wait_until(lambda: ingest_totals(lakehouse, stream).accepted == 3)
        broker.stop()
        wait_until(lambda: bool(told))
        broker.start()
        produce(broker, topic, [event("u", seq) for seq in range(3, 6)])
        wait_until(lambda: ingest_totals(lakehouse, stream).accepted == 6)
    finally:
        if broker.process.poll() is not None:
            broker.start()
        stop.set()
        running.join(60)
    assert numbers(lakehouse) == [*range(6)]
    assert "does not answer" in told[0]
    assert "Ingest waits for it" in told[0]
    assert told[1].startswith("Kafka is back after")


def test_a_broker_that_falls_silent_breaks_the_run_off_and_the_next_one_goes_on(broker: Broker, lakehouse: Lakehouse):
    topic = broker.topic()
    produce(broker, topic, [event("u", seq) for seq in range(5)])
    with power_cut_at("plan: after"):
        ingest(lakehouse, EVENTS, reading(broker, topic), runners=LOCAL)
    away = KafkaSettings("127.0.0.1:1")
    access = batch.TopicAccess(topic, away.bootstrap, (), record_gaps=False)
    with (
        patch.multiple(messages, SILENCE=0.5),
        messages.TopicReader(away, topic, (), longest=1 << 24, record_gaps=False) as reader,
    ):
        plan = ingest_journal(lakehouse, "clicks").plan(0)
        assert plan is not None
        assert plan.topic is not None
        with pytest.raises(
            OSError, match=r"sent nothing for 0\.5 s .*Connection refused.*, at offset 0 of partition 0"
        ):
            list(reader.read(plan.topic.ranges[0]))
    assert access.partition_name(0) == f"kafka://{topic}/0"
    check_counts(lakehouse, ingest(lakehouse, EVENTS, reading(broker, topic), runners=LOCAL))
    assert numbers(lakehouse) == [*range(5)]


def test_a_topic_that_is_not_there_is_named(broker: Broker, lakehouse: Lakehouse):
    with pytest.raises(KeyfoldError, match="there is no topic nowhere in Kafka at"):
        ingest(lakehouse, EVENTS, reading(broker, "nowhere"), runners=LOCAL)
