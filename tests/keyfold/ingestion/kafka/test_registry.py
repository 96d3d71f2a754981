"""Messages in Avro, Protobuf and JSON Schema are read as what was sent. Confluent's own serializers are the writers."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest
from keyfold.ingestion.kafka.registry import Registry
from keyfold.ingestion.kafka.settings import KafkaSettings
from keyfold.ingestion.kafka.topic import KafkaTopic
from keyfold.lakehouse import Lakehouse
from tests.examples import examples
from tests.kafka_broker import Broker
from tests.keyfold.ingestion.kafka.test_with_a_broker import SPARK, numbers, quarantine
from tests.keyfold.ingestion.test_run import EVENTS, check_counts, event

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
Protobuf: Any = ProtobufSerializer


@pytest.fixture
def client(monkeypatch):
    """A registry in memory, which all clients share."""
    made = SchemaRegistryClient.new_client({"url": "mock://tests"})
    monkeypatch.setattr(SchemaRegistryClient, "new_client", staticmethod(lambda _: made))
    return made


@pytest.fixture
def decoded(client):
    """What is read of messages, each of which must have a value without a fault."""
    registry = Registry({"url": "mock://tests"})

    def decode(*values: Any) -> list[Any]:
        texts, faults = registry.decode(values)
        assert faults == {}
        return [json.loads(text) for text in texts if text is not None]

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


def rides_of_protobuf() -> tuple[Any, Any]:
    """Return the classes of the messages Ride and Ride.Stop, the first of which is not the first of its file."""
    file = descriptor_pb2.FileDescriptorProto(
        name="rides.proto", package="city", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    file.message_type.add(name="Other")
    file.enum_type.add(name="Status").value.add(name="OPEN", number=0)
    file.enum_type[0].value.add(name="DONE", number=1)
    ride = file.message_type.add(name="Ride")
    stop = ride.nested_type.add(name="Stop")
    one, many = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL, descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    kinds = descriptor_pb2.FieldDescriptorProto
    stop.field.add(name="x", number=1, label=one, type=kinds.TYPE_DOUBLE)
    seats = ride.nested_type.add(name="SeatsEntry")
    seats.options.map_entry = True
    seats.field.add(name="key", number=1, label=one, type=kinds.TYPE_STRING)
    seats.field.add(name="value", number=2, label=one, type=kinds.TYPE_INT64)
    for number, (name, label, kind, type_name) in enumerate(
        [
            ("id", one, kinds.TYPE_STRING, None),
            ("n", one, kinds.TYPE_INT64, None),
            ("at", one, kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            ("stops", many, kinds.TYPE_MESSAGE, ".city.Ride.Stop"),
            ("seats", many, kinds.TYPE_MESSAGE, ".city.Ride.SeatsEntry"),
            ("status", one, kinds.TYPE_ENUM, ".city.Status"),
            ("raw", one, kinds.TYPE_BYTES, None),
        ],
        1,
    ):
        ride.field.add(name=name, number=number, label=label, type=kind, type_name=type_name)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    found = pool.FindMessageTypeByName("city.Ride")
    ride_class, stop_class = map(message_factory.GetMessageClass, (found, found.nested_types_by_name["Stop"]))
    return ride_class, stop_class


def test_what_was_sent_in_protobuf_is_read(client, decoded):
    ride, stop = rides_of_protobuf()
    sent = ride(id="a", n=2**60, at={"seconds": 60}, stops=[{"x": 0.5}], seats={"front": 1}, status="DONE", raw=b"\xff")
    values = [
        Protobuf(type(one), client, {"use.deprecated.format": False})(one, VALUE) for one in (sent, ride(), stop(x=2))
    ]
    assert decoded(*values) == [
        {
            "id": "a",
            "n": 2**60,
            "at": "1970-01-01T00:01:00Z",
            "stops": [{"x": 0.5}],
            "seats": {"front": 1},
            "status": "DONE",
            "raw": "/w==",
        },
        # What is not set has Protobuf's default, except for a message, which has none.
        {"id": "", "n": 0, "stops": [], "seats": {}, "status": "OPEN", "raw": ""},
        {"x": 2.0},
    ]


def test_a_schema_of_protobuf_that_is_text_is_asked_for_as_a_descriptor(client, decoded, monkeypatch):
    ride, _ = rides_of_protobuf()
    value = Protobuf(ride, client, {"use.deprecated.format": False})(ride(id="a"), VALUE)
    get_schema = client.get_schema

    def text_unless_asked(number: int, fmt: str | None = None) -> Schema:
        return get_schema(number) if fmt == "serialized" else Schema('syntax = "proto3"; message Ride {}', "PROTOBUF")

    monkeypatch.setattr(client, "get_schema", text_unless_asked)
    assert decoded(value)[0]["id"] == "a"


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
    texts, faults = Registry({"url": "mock://tests"}).decode([changed(value), value])
    assert texts == [changed(value), b'{"id": "a"}']
    assert list(faults) == [0]
    assert told in faults[0]
    assert " at 0x" not in faults[0]


def test_a_registry_that_does_not_answer_fails_the_run_and_shows_no_password():
    registry = Registry({"url": "http://127.0.0.1:9", "basic.auth.user.info": "ann:planted-word", "max.retries": "1"})
    began = time.monotonic()
    with pytest.raises(OSError, match=r"the schema registry at http://127.0.0.1:9 failed") as told:
        registry.decode([b"\0\0\0\0\x01x"])
    assert "planted" not in str(told.value)
    assert time.monotonic() - began < timedelta(seconds=60).total_seconds()


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
    check_counts(lakehouse, ingest(lakehouse, EVENTS, KafkaTopic(topic, settings=settings), runners=SPARK))
    assert numbers(lakehouse) == [*range(21)]
    (rejected,) = quarantine(lakehouse)
    assert rejected["line"] == 20
    assert "names schema 99, which the registry does not have" in str(rejected)


def test_settings_of_a_registry_need_its_address():
    with pytest.raises(KeyfoldError, match=r"without schema.registry.url: add its address"):
        KafkaSettings.from_environment(
            {"KEYFOLD_KAFKA_BOOTSTRAP": "a:1", "KEYFOLD_KAFKA_CONF": "schema.registry.basic.auth.user.info=ann:planted"}
        )
    settings = KafkaSettings(
        "a:1", {"schema.registry.url": "https://r", "schema.registry.basic.auth.user.info": "ann:planted"}
    )
    assert settings.registry == {"url": "https://r", "basic.auth.user.info": "ann:planted"}
    assert not [name for name in settings.client() if name.startswith("schema")]
    assert settings.without_secrets("refused ann:planted") == "refused (hidden)"
