"""Tables to topics: whatever happens on the way, readers of committed messages find each row once. The table is the oracle."""

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from keyfold.errors import KeyfoldError
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job_run import RunOptions, run_job
from keyfold.lakehouse import Lakehouse, fail_points
from keyfold.sinks import sender
from keyfold.sinks.encoding import encoder
from keyfold.sinks.publisher import Publisher, kafka_sinks, publish
from tests.folders import copy_folder, move_folder, remove_folder
from tests.kafka_broker import Broker
from tests.keyfold.keyed.toy_jobs import totals, windows
from tests.keyfold.sinks.published import messages, rows_of, table_rows, to
from tests.lake import Lake
from tests.power_cuts import Cut, PowerCut

JOB = windows()

PROMISE = "A table that goes to a topic: readers of committed messages find each row once."


def test_a_batch_is_sent_once_with_keys_and_with_headers_that_name_its_rows(without_spark, broker: Broker, lakehouse):
    topic = broker.topic()
    for number in range(3):
        Lake(lakehouse).click(*((user, number * 30 + at) for user in ("ann", "bob") for at in (0, 12, 29)))
        run_job(lakehouse, JOB, runners=without_spark)
        [told] = publish(lakehouse, JOB, to(broker, topic))
        assert told.batches == 1
    assert publish(lakehouse, JOB, to(broker, topic))[0].batches == 0
    found = messages(broker, topic)
    assert rows_of(found) == table_rows(lakehouse)
    assert {message.key() for message in found} == {b"ann", b"bob"}
    generation = Lake(lakehouse).live("windows")
    named = [dict(message.headers()) for message in found]
    assert {one["keyfold-generation"] for one in named} == {generation.identity.encode()}
    assert len({(one["keyfold-batch"], one["keyfold-row"]) for one in named}) == len(found) > 6


@pytest.mark.parametrize("point", ["sink: before", "sink: sent", "sink: committed"])
def test_each_row_is_there_once_wherever_sending_is_killed(
    without_spark, broker: Broker, lakehouse, monkeypatch, tally, point
):
    told, topic = tally(f"power fails at {point!r}"), broker.topic()
    for number in range(4):
        Lake(lakehouse).click(("ann", number * 30), ("bob", number * 30 + 15))
        run_job(lakehouse, JOB, runners=without_spark)
        if number % 2:
            with monkeypatch.context() as patch:
                patch.setattr(fail_points, "act", Cut(point))
                with pytest.raises(PowerCut):
                    publish(lakehouse, JOB, to(broker, topic))
    assert sum(sent.batches for sent in publish(lakehouse, JOB, to(broker, topic))) >= 1
    told.count(Counter(table_rows(lakehouse)), Counter(rows_of(messages(broker, topic))), point)


def test_where_kafka_has_forgotten_how_far_it_went_the_note_beside_the_journal_knows(
    without_spark, broker: Broker, lakehouse
):
    topic = broker.topic()
    Lake(lakehouse).click(("ann", 0), ("ann", 40))
    run_job(lakehouse, JOB, runners=without_spark)
    publish(lakehouse, JOB, to(broker, topic))
    generation = Lake(lakehouse).live("windows")
    group = f"keyfold-{generation.identity}-windows-{topic}"
    broker.admin.delete_consumer_groups([group])[group].result()
    Lake(lakehouse).click(("bob", 80))
    run_job(lakehouse, JOB, runners=without_spark)
    publish(lakehouse, JOB, to(broker, topic))
    assert rows_of(messages(broker, topic)) == table_rows(lakehouse)


@pytest.mark.parametrize("runs", [0, 1, 2, 3])
def test_after_a_restore_from_a_backup_no_batch_is_passed_over_in_silence(
    without_spark, broker: Broker, lakehouse, runs
):
    """The topic has batches that the journal lost: it is behind, level or ahead by the time that it sends again."""
    topic, backup = broker.topic(), lakehouse.home.with_name("backup")
    for number in range(3):
        Lake(lakehouse).click(("ann", number * 60), ("bob", number * 60 + 30))
        run_job(lakehouse, JOB, runners=without_spark)
        publish(lakehouse, JOB, to(broker, topic))
        if not number:
            copy_folder(lakehouse.home, backup)
    sent = rows_of(messages(broker, topic))
    remove_folder(lakehouse.home)
    move_folder(backup, lakehouse.home)
    for number in range(runs):
        Lake(lakehouse).click(("eve", 60 + number * 60))
        run_job(lakehouse, JOB, runners=without_spark)
    with pytest.raises(KeyfoldError, match=rf"topic {topic} has.* was restored from a backup.*--full-refresh"):
        publish(lakehouse, JOB, to(broker, topic))
    assert rows_of(messages(broker, topic)) == sent
    run_job(lakehouse, JOB, FullRefresh(), runners=without_spark)
    publish(lakehouse, JOB, to(broker, topic))
    assert rows_of(messages(broker, topic)) == sent + table_rows(lakehouse)


def test_a_new_generation_is_sent_whole_under_its_own_name(without_spark, broker: Broker, lakehouse):
    topic = broker.topic()
    Lake(lakehouse).click(("ann", 0), ("ann", 40))
    run_job(lakehouse, JOB, runners=without_spark)
    publish(lakehouse, JOB, to(broker, topic))
    run_job(lakehouse, JOB, FullRefresh(), options=RunOptions(), runners=without_spark)
    publish(lakehouse, JOB, to(broker, topic))
    by_generation = Counter(dict(message.headers())["keyfold-generation"] for message in messages(broker, topic))
    rows = sum(table_rows(lakehouse).values())
    assert sorted(by_generation.values()) == [rows, rows]


def test_a_broker_that_is_away_loses_nothing(without_spark, broker: Broker, lakehouse, monkeypatch):
    topic = broker.topic()
    Lake(lakehouse).click(("ann", 0), ("ann", 40))
    run_job(lakehouse, JOB, runners=without_spark)
    monkeypatch.setattr(sender, "TIMEOUT", 0.5)
    away = to(broker, topic) | {"KEYFOLD_KAFKA_BOOTSTRAP": "127.0.0.1:1"}
    with pytest.raises(KeyfoldError, match=r"do not reach topic .* The table has these rows; the next run sends them"):
        publish(lakehouse, JOB, away)
    monkeypatch.setattr(sender, "TIMEOUT", 60)
    # Whoever runs the job is told, and not held up again at once.
    publisher = Publisher(lakehouse, JOB, away | {"KEYFOLD_KAFKA_BOOTSTRAP": "127.0.0.1"})
    publisher.publish()
    assert publisher.warnings == (
        "KEYFOLD_KAFKA_BOOTSTRAP must be host:port, such as broker.example.org:9092, several separated by commas",
    )
    publisher._environment = to(broker, topic)
    publisher.publish()
    assert publisher.sent == ()
    publisher.publish(at_last=True)
    assert [one.rows for one in publisher.sent] == [sum(table_rows(lakehouse).values())]
    assert publisher.warnings == ()
    assert rows_of(messages(broker, topic)) == table_rows(lakehouse)


def test_a_side_output_goes_to_a_topic_and_a_table_that_is_updated_in_place_does_not(
    without_spark, broker: Broker, lakehouse
):
    topic, job = broker.topic(), totals()
    Lake(lakehouse).click(("ann", 0), ("ann", 1), ("bob", 2))
    run_job(lakehouse, job, runners=without_spark)
    publish(lakehouse, job, to(broker, topic, "changes"))
    assert rows_of(messages(broker, topic)) == table_rows(lakehouse, "changes")
    with pytest.raises(KeyfoldError, match="KEYFOLD_KAFKA_SINKS names totals, whose rows are updated in place"):
        publish(lakehouse, job, to(broker, topic, "totals"))


def test_without_a_topic_nothing_is_asked_of_anybody(lakehouse: Lakehouse):
    assert publish(lakehouse, JOB, {}) == ()
    assert publish(lakehouse, JOB, {"KEYFOLD_KAFKA_SINKS": "others=x"}) == ()
    with pytest.raises(KeyfoldError, match="KEYFOLD_KAFKA_SINKS: the topic of windows is 'a/b'"):
        kafka_sinks({"KEYFOLD_KAFKA_SINKS": "windows=a/b"})
    with pytest.raises(KeyfoldError, match="windows goes out as 'xml'; give one of json, avro, json-schema"):
        kafka_sinks({"KEYFOLD_KAFKA_SINKS": "windows=xml:a"})


def reader(form: str, client: SchemaRegistryClient, topic: str) -> Any:
    """Confluent's own reader of a format, by the schema that was registered; a row as a dict."""
    context = SerializationContext(topic, MessageField.VALUE)
    kinds: Any = {"avro": AvroDeserializer, "json-schema": JSONDeserializer}
    schema = client.get_latest_version(f"{topic}-value").schema.schema_str
    read = kinds[form](client) if form == "avro" else kinds[form](schema, schema_registry_client=client)
    return lambda value: read(value, context)


@pytest.mark.parametrize("form", ["avro", "json-schema"])
def test_rows_go_out_in_the_format_of_a_registered_schema(without_spark, broker: Broker, lakehouse, monkeypatch, form):
    client = SchemaRegistryClient.new_client({"url": "mock://tests"})
    monkeypatch.setattr(SchemaRegistryClient, "new_client", staticmethod(lambda _: client))
    topic = broker.topic()
    Lake(lakehouse).click(("ann", 0), ("bob", 12), ("ann", 40))
    run_job(lakehouse, JOB, runners=without_spark)
    environment = to(broker, f"{form}:{topic}")
    with pytest.raises(KeyfoldError, match=rf"goes to topic {topic} in {form}, which needs schema.registry.url"):
        publish(lakehouse, JOB, environment)
    [told] = publish(lakehouse, JOB, environment | {"KEYFOLD_KAFKA_CONF": "schema.registry.url=mock://tests"})
    read = reader(form, client, topic)
    found = [read(message.value()) for message in messages(broker, topic)]
    texts = [{name: as_text(name, value) for name, value in row.items()} for row in found]
    assert Counter(json.dumps(row, sort_keys=True) for row in texts) == table_rows(lakehouse)
    assert told.rows == len(found) > 0


def as_text(name: str, value: Any) -> Any:
    """A value as JSON of a table has it."""
    return f"{value:%Y-%m-%dT%H:%M:%S.%fZ}" if isinstance(value, datetime) else value


def test_each_type_of_a_column_goes_out():
    client = SchemaRegistryClient.new_client({"url": "mock://tests"})
    rows = pl.DataFrame(
        {
            "text": ["ä", None],
            "number": [2**62, None],
            "amount": [Decimal("1.25"), None],
            "at": [datetime(2026, 1, 1, tzinfo=UTC), None],
            "day": [date(2026, 1, 1), None],
            "took": [timedelta(seconds=1), None],
            "list": [[1, None], None],
            "inside": [{"x": 0.5, "deep": [{"y": True}]}, {"x": None, "deep": []}],
        },
        schema_overrides={"amount": pl.Decimal(10, 2)},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SchemaRegistryClient, "new_client", staticmethod(lambda _: client))
        settings = KafkaSettings("a:1", {"schema.registry.url": "mock://tests"})
        encode = encoder(settings, "avro", "t", "rows", rows.schema)
        read = reader("avro", client, "t")
        found = [read(value) for value in encode(rows)]
        with pytest.raises(KeyfoldError, match="column 'a b' has a name that Avro cannot have"):
            encoder(settings, "avro", "t", "rows", {"a b": pl.String()})
    assert found == rows.with_columns(pl.col("took").dt.total_microseconds()).to_dicts()
