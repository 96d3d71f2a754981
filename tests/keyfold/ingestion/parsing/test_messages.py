"""Faults of messages, and what comes beside their values. That they are read as lines are: `test_neighbours.py`."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.ingestion.parsing import parse_messages
from keyfold.stream import INGESTED_AT, Source, Stream
from tests.schemas import schema_of

ARRIVED = datetime(2026, 1, 2, tzinfo=UTC)
STREAM = Stream(
    name="visits",
    schema=schema_of("user string!, seq int32, at time!"),
    event_time="at",
    missing=("NA",),
    max_line_bytes=200,
)
GOOD = {"user": "ann", "seq": 1, "at": "2026-01-01T00:00:00Z"}


def reasons(values, **more) -> dict[int, str]:
    found = parse_messages(STREAM, values, np.arange(70, 70 + len(values)), ARRIVED, **more)
    assert found.read == len(values)
    return {reject.line: reject.reason for reject in found.rejects}


def test_one_message_that_cannot_be_decoded_rejects_itself_alone():
    good = json.dumps(GOOD).encode()
    cut = "é".encode()
    values = [
        good,
        None,
        b"",
        b" \n",
        b"\xff\xfe",
        cut[:1],
        cut[1:],
        json.dumps(GOOD).encode("utf-16"),
        good + b" " * 200,
        good,
    ]
    told = reasons(values)
    assert {line: reason.partition(":")[0] for line, reason in told.items()} == {
        71: "the message has no value (a tombstone); a column whose source is kafka_tombstone takes it as an event",
        72: "the message is empty",
        73: "the message is empty",
        74: "the message is not UTF-8",
        75: "the message is not UTF-8",
        76: "the message is not UTF-8",
        77: "the message holds NUL bytes",
        78: f"the message has {len(good) + 200} bytes, more than its stream's limit of 200",
    }
    rejects = parse_messages(STREAM, values, np.arange(len(values)), ARRIVED).rejects
    assert rejects[3].raw == "\\xff\\xfe"


def test_a_message_may_be_written_over_several_lines_and_two_objects_are_none():
    two = json.dumps(GOOD).encode() + b"\n" + json.dumps(GOOD).encode()
    told = reasons([json.dumps(GOOD, indent=2).encode(), two])
    assert list(told) == [71]
    assert told[71].startswith("not valid JSON: Extra data")


def test_what_comes_beside_a_value_is_not_taken_from_it():
    stream = replace(
        STREAM,
        sources={"user": Source(("kafka_key",)), "seq": Source(("kafka_header.seq", "seq"))},
    )
    values = [json.dumps(GOOD | {"kafka_key": "eve", "seq": 9}).encode(), b"rubbish", json.dumps(GOOD).encode()]
    beside = pa.table({"kafka_key": ["bob", "cem", None], "kafka_header.seq": ["7", None, None]})
    found = parse_messages(stream, values, np.array([5, 6, 8]), ARRIVED, beside=beside, faults={})
    assert found.accepted.select("user", "seq").rows() == [("bob", 7)]
    assert [(one.line, one.reason[:15]) for one in found.rejects] == [(6, "not valid JSON:"), (8, "user is missing")]
    broken = parse_messages(stream, values, np.array([5, 6, 8]), ARRIVED, beside=beside, faults={0: "kafka_key is odd"})
    assert (broken.rejects[0].line, broken.rejects[0].reason) == (5, "kafka_key is odd")


def test_each_message_has_an_arrival_of_its_own_and_is_bounded_by_it():
    arrivals = [ARRIVED, ARRIVED - timedelta(days=3), ARRIVED]
    values = [json.dumps(GOOD).encode(), json.dumps(GOOD).encode(), b"rubbish"]
    found = parse_messages(STREAM, values, np.arange(3), pl.Series(arrivals).cast(pl.Datetime("us", "UTC")))
    assert found.accepted[INGESTED_AT].to_list() == [ARRIVED]
    assert [one.line for one in found.rejects] == [1, 2]
    assert "past its arrival" in found.rejects[0].reason
