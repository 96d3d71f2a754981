"""Messages in Avro and with a JSON Schema are read as what was sent. Confluent's own serializers are the writers."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.ingestion.kafka.message_decoder import MessageDecoder
from keyfold.ingestion.kafka.topic import KafkaTopic
from keyfold.lakehouse import Lakehouse
from keyfold.runs import ingest
from tests.examples import examples
from tests.kafka_broker import Broker
from tests.keyfold.ingestion.kafka.topics import LOCAL, numbers, quarantine
from tests.landings import EVENTS, check_counts, event

SETTINGS = KafkaSettings("127.0.0.1:1", {"schema.registry.url": "mock://tests"})
LONGEST = 1 << 24
VALUE = SerializationContext("rides", MessageField.VALUE)
RIDE = {
    "type": "record",
    "name": "Ride",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "fare", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "stops", "type": {"type": "array", "items": "double"}},
        {"name": "seats", "type": {"type": "map", "values": "long"}},
    ],
}


# The package's types take them for functions without arguments.
Avro: Any = AvroSerializer
Json: Any = JSONSerializer


@pytest.fixture
def client(monkeypatch):
    """A registry in memory, which all clients share."""
    made = SchemaRegistryClient.new_client({"url": "mock://tests"})
    monkeypatch.setattr(SchemaRegistryClient, "new_client", staticmethod(lambda _: made))
    return made


@pytest.fixture
def decoded(client):
    """What is read of messages, each of which must have a value without a fault."""
    registry = MessageDecoder(SETTINGS, LONGEST)

    def decode(*values: Any) -> list[Any]:
        found = list(registry.decode(values))
        assert [one.fault for one in found] == [""] * len(values)
        return [json.loads(one.text) for one in found if one.text is not None]

    return decode


TIMES = st.integers(0, 4 * 10**15).map(lambda micros: datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros))
RIDES = st.fixed_dictionaries(
    {
        "id": st.text(max_size=5),
        "at": TIMES,
        "fare": st.none() | st.decimals(-9999, 9999, places=2),
        "stops": st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
        "seats": st.dictionaries(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1), max_size=2),
    }
)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rides=st.lists(RIDES, max_size=4))
def test_what_was_sent_in_avro_is_read(client, decoded, rides):
    write = Avro(client, json.dumps(RIDE))
    found = decoded(*(write(ride, VALUE) for ride in rides))
    assert [one | {"at": datetime.fromisoformat(one["at"])} for one in found] == [
        ride | {"fare": None if ride["fare"] is None else str(ride["fare"])} for ride in rides
    ]


def test_a_schema_of_avro_may_refer_to_others(client, decoded):
    client.register_schema(
        "point", Schema('{"type":"record","name":"Point","fields":[{"name":"x","type":"int"}]}', "AVRO")
    )
    text = '{"type":"record","name":"Way","fields":[{"name":"from","type":"Point"}]}'
    write = Avro(client, Schema(text, "AVRO", [SchemaReference("Point", "point", 1)]))
    assert decoded(write({"from": {"x": 7}}, VALUE)) == [{"from": {"x": 7}}]


def test_versions_of_a_schema_and_plain_json_may_be_in_one_topic(client, decoded):
    old, new = (
        {**RIDE, "fields": RIDE["fields"][:1] + more} for more in ([], [{"name": "n", "type": "int", "default": 0}])
    )
    values = [
        Avro(client, json.dumps(schema))(ride, VALUE)
        for schema, ride in ((old, {"id": "a"}), (new, {"id": "b", "n": 2}))
    ]
    assert decoded(*values, b'{"id": "c"}') == [{"id": "a"}, {"id": "b", "n": 2}, {"id": "c"}]


def test_what_was_sent_with_a_json_schema_is_read(client, decoded):
    write = Json('{"title": "Ride", "type": "object", "properties": {"id": {"type": "string"}}}', client)
    assert decoded(write({"id": "ä"}, VALUE)) == [{"id": "ä"}]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (lambda value: value[:-1], "cannot be decoded by schema 1"),
        (lambda value: value + b"x", "1 bytes are left after its last field"),
        (lambda value: b"\0\0\0\0\x63" + value[5:], "names schema 99, which the registry does not have"),
        (lambda value: value[:5], "cannot be decoded by schema 1"),
    ],
)
def test_a_message_that_is_not_of_its_schema_is_told_and_the_others_are_read(client, changed, told):
    value = Avro(client, json.dumps(RIDE | {"fields": RIDE["fields"][:1]}))({"id": "a"}, VALUE)
    wrong, right = MessageDecoder(SETTINGS, LONGEST).decode([changed(value), value])
    assert right == (b'{"id": "a"}', "")
    assert wrong.text is None
    assert told in wrong.fault
    assert " at 0x" not in wrong.fault


def test_a_topic_in_avro_comes_into_the_table_and_what_is_of_no_schema_into_quarantine(
    broker: Broker, client, monkeypatch, tmp_path
):
    topic, lakehouse = broker.topic(), Lakehouse(tmp_path)
    fields = [{"name": name, "type": "long" if name == "seq" else ["null", "string"]} for name in event("u", 0)]
    write = Avro(client, json.dumps({"type": "record", "name": "Click", "fields": fields}))
    producer = broker.producer()
    for seq in range(20):
        producer.produce(topic, write(event("u", seq), VALUE))
    producer.produce(topic, b"\0\0\0\0\x63nothing")
    producer.produce(topic, json.dumps(event("u", 20)))
    assert producer.flush(30) == 0
    monkeypatch.setenv("KEYFOLD_KAFKA_CONF", "schema.registry.url=mock://tests")
    settings = KafkaSettings.from_environment(
        {"KEYFOLD_KAFKA_BOOTSTRAP": broker.bootstrap, "KEYFOLD_KAFKA_CONF": "schema.registry.url=mock://tests"}
    )
    check_counts(lakehouse, ingest(lakehouse, EVENTS, KafkaTopic(topic, settings=settings), runners=LOCAL))
    assert numbers(lakehouse) == [*range(21)]
    (rejected,) = quarantine(lakehouse)
    assert rejected["line"] == 20
    assert "names schema 99, which the registry does not have" in str(rejected)
