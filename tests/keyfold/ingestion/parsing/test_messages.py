"""Messages are parsed by the rules of a file's lines: the file's own parser is the oracle."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from keyfold.ingestion.parsing import parse_messages
from keyfold.stream import INGESTED_AT, Source, Stream
from tests.examples import examples
from tests.keyfold.ingestion.parsing.reading import as_rows, file_rows
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
LINE = st.one_of(
    st.builds(lambda change: json.dumps(GOOD | change), st.dictionaries(
        st.sampled_from(["user", "seq", "at", "other"]),
        st.one_of(st.none(), st.integers(-(2**33), 2**33), st.text(max_size=3), st.booleans(), st.just({"a": [1]})),
        max_size=2,
    )),
    st.sampled_from(["rubbish", "{", "[]", "null", '{"user": "ann"', '{"user":"ann"} {"user":"ann"}', "{}", "1e5"]),
).filter(lambda line: "\0" not in line)  # fmt: skip


@examples(150)
@given(st.lists(LINE, min_size=1, max_size=40))
def test_messages_give_what_the_lines_of_a_file_give(lines):
    numbers = np.arange(1, len(lines) + 1)
    found = as_rows(STREAM, parse_messages(STREAM, [line.encode() for line in lines], numbers, ARRIVED))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "lines.ndjson"
        file.write_text("".join(f"{line}\n" for line in lines))
        expected = file_rows(STREAM, file, ARRIVED)
    assert sorted(found, key=lambda row: row["line"]) == sorted(expected, key=lambda row: row["line"])


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
        71: "the message has no value (a tombstone)",
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
