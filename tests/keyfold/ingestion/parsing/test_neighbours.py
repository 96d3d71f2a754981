"""What becomes of a row depends on that row alone: not on the rows beside it, and not on where a text is cut."""

import io
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.ingestion.parsing import parse_messages
from keyfold.ingestion.parsing.csv_lines import read_csv
from keyfold.ingestion.parsing.exploding import exploded
from keyfold.ingestion.parsing.json_lines import read_json
from keyfold.ingestion.parsing.rows import validate_rows
from keyfold.ingestion.parsing.text import chunks
from keyfold.stream import Source, Stream
from tests.examples import examples
from tests.keyfold.ingestion.parsing.reading import as_rows
from tests.schemas import schema_of

ARRIVED = datetime(2026, 1, 1, tzinfo=UTC)
STREAM = Stream(
    name="any",
    schema=schema_of(
        "whole int64, real float64, text string, texts strings, time time, micros time, price price, day date, counts numbers, "
        "pair pair"
    ),
    event_time="time",
    missing_time="arrival",
    sources={"micros": Source(("micros",), time="us")},
    missing=("NA",),
)
DEEP = "[" * 990 + "]" * 990
JSON_VALUE = st.sampled_from(
    [
        *["1", "-0", "1.0", "1e2", "1e999", "9007199254740993.0", "9223372036854775808", "1682093829500000.5", "01"],
        *["NaN", "Inf", "-Infinity", "null", "true", "tru", "{}", "[]"],
        *['"a"', '"NA"', '" NA "', '"NA\\u001c"', '"5"', '"\\ud800"', '"\\u0000"', '"a\rb"', '"é"'],
        *['["a", null]', "[null]", '["a", 1]'],
        *['"2025-12-01"', '"2025-12-01T00Z"', '"2025-12-01 10:00:00.1234567Z"', '"0000-01-01T00:00:00Z"'],
        *('"2025-12-01T23:59:60Z"', "1" * 400, "1" * 5000, DEEP),
        *["1.50", "1.500", "1.505", "123456789", "12345678.90", '"1.5"', '"1e1"', '"+1"', '"1_0"', '" 1"', '""', ".5"],
        *['"2025-02-30"', '"2025-2-3"', "[1, 2]", "[1, null]", "[1.0]", "[1.5]", '[1, "x"]', "[[1]]"],
        *['{"n": 1, "on": "2025-12-01"}', '{"n": 1.0}', '{"n": "x"}', '{"on": 5}', '{"n": null, "more": [1]}'],
    ]
)
JSON_FIELD = st.builds(
    lambda name, sign, value: f'"{name}"{sign}{value}',
    st.sampled_from([*STREAM.schema.names, "other"]),
    st.sampled_from([":", ": ", ":\r"]),
    JSON_VALUE,
)
NESTED = Stream(
    name="nested",
    schema=schema_of(
        "device int64, site string, first float64, value float64, names strings, place int64, kept string, whole string, time time"
    ),
    event_time="time",
    missing_time="arrival",
    sources={
        "device": Source("device.id"),
        "site": Source(("device.site.name", "site")),
        "first": Source("readings[0].value"),
        "value": Source("readings[].value"),
        "names": Source("readings[].names"),
        "place": Source(place=True),
        "kept": Source("device", json=True),
        "whole": Source(json=True),
    },
    missing=("NA",),
)
NESTED_VALUE = st.recursive(
    JSON_VALUE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda values: f"[{','.join(values)}]"),
        st.lists(
            st.builds('"{}": {}'.format, st.sampled_from(["id", "site", "name", "value", "names", "\\u0069d"]), inner),
            max_size=3,
        ).map(lambda fields: "{" + " , ".join(fields) + "}"),
    ),
    max_leaves=6,
)
GOOD_FIELDS = {
    "device": ['{"id": 7}', '{"id": 9007199254740993, "site": {"name": "a"}}', '{"\\u0069d": 1.0, "more": [{}]}'],
    "readings": ['[{"value": 1}, {"value": 2.5, "names": "a"}]', '[{"names": ["a", null]}, {}, null]', "[]"],
    "site": ['"b"'],
    "time": ['"2025-12-01T00:00:00Z"'],
}
NESTED_FIELD = st.one_of(
    st.sampled_from([f'"{name}":{value}' for name, values in GOOD_FIELDS.items() for value in values]),
    st.builds(
        '"{}":{}'.format, st.sampled_from(["device", "device.id", "readings", "site", "other", "time"]), NESTED_VALUE
    ),
)
NESTED_LINE = st.one_of(
    st.lists(NESTED_FIELD, max_size=4).map(lambda fields: "{" + ",".join(fields) + "}"),
    st.sampled_from(["", "{", ' {"readings":[{"value":1},null,{"value":"x"}]}\r', '{"readings":[{"value":1}]}']),
)
JSON_LINE = st.one_of(
    st.lists(JSON_FIELD, max_size=3).map(lambda fields: "{" + ",".join(fields) + "}"),
    st.sampled_from(["", " ", "{}\r", "{}{}", "{", "null", " {}", '{"other": {}']),
)
CSV_FIELD = st.sampled_from(
    ["1", "", "9007199254740993.0", "1e2", "x\ry", "\r", '"a,b"', '"x\ry"', '5" pipe', '"a"b', " "]
)


def json_rows(lines: list[str], size: int, stream: Stream = STREAM) -> list[dict]:
    text = io.BytesIO("\n".join(lines).encode())
    chunked = read_json(stream.raw_schema, chunks(text, size), stream.missing)
    return rows_of((rows for read_chunk in chunked for rows in read_chunk()), stream)


def csv_rows(header: str, lines: list[str], end: str, size: int) -> list[dict]:
    text = io.BytesIO("".join(f"{line}{end}" for line in [header, *lines]).encode())
    return rows_of(read_csv(STREAM.raw_schema, chunks(text, size)))


def rows_of(parts, stream: Stream = STREAM) -> list[dict]:
    parts = [part for rows in parts for part in exploded(stream, rows)]
    found = [row for rows in parts for row in as_rows(stream, validate_rows(stream, rows, ARRIVED))]
    return sorted(map(shown, found), key=line_of)


def shown(row: dict) -> dict:
    return {name: repr(value) if name != "line" else value for name, value in row.items()}


def line_of(row: dict) -> tuple:
    return row["line"], str(row.get("place")), row["reason"]


def message_rows(lines: list[str], stream: Stream) -> list[dict]:
    """The rows of messages that have these lines, numbered as the lines are."""
    numbers = np.arange(1, len(lines) + 1)
    found = as_rows(stream, parse_messages(stream, [line.encode() for line in lines], numbers, ARRIVED))
    return sorted(map(shown, found), key=line_of)


@examples(600)
@given(
    st.one_of(
        st.tuples(st.just(STREAM), st.lists(JSON_LINE, min_size=1, max_size=10)),
        st.tuples(st.just(NESTED), st.lists(NESTED_LINE, min_size=1, max_size=8)),
    ),
    st.integers(1, 200),
)
def test_a_json_line_is_read_alike_among_others_alone_in_small_chunks_and_as_a_message(given, size):
    stream, lines = given
    together = json_rows(lines, 1 << 20, stream)
    alone = [row | {"line": at} for at, line in enumerate(lines, 1) for row in json_rows([line], 1 << 20, stream)]
    assert together == alone
    assert together == json_rows(lines, size, stream)
    there = [line for line in lines if line.strip()]
    assert message_rows(there, stream) == json_rows(there, 1 << 20, stream)


@examples(200)
@given(
    st.lists(st.lists(CSV_FIELD, max_size=3).map(",".join), max_size=8),
    st.sampled_from(["whole", "whole,text"]),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 60),
)
def test_a_csv_line_is_read_alike_among_others_alone_and_in_small_chunks(lines, header, end, size):
    together = csv_rows(header, lines, end, 1 << 20)
    alone = [row | {"line": at} for at, line in enumerate(lines, 2) for row in csv_rows(header, [line], end, 1 << 20)]
    assert together == alone
    assert together == csv_rows(header, lines, end, size)


@examples(100)
@given(
    st.lists(st.sampled_from(["a", '"b\r\nc"', '"open', "\r", '"x\n']), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 9),
)
def test_csv_rows_of_several_lines_and_their_header_do_not_depend_on_chunks(lines, end, size):
    header = '\n"other\n",text'
    lines = [f"{field},{field}" for field in lines]
    assert csv_rows(header, lines, end, size) == csv_rows(header, lines, end, 1 << 20)


def test_a_list_may_hold_elements_that_are_null():
    for lines in (['{"texts": ["a", null]}'], ['{"texts": ["a", null]}', '{"texts": "one"}', '{"texts": [1]}']):
        first = json_rows(lines, 1 << 20)[0]
        assert (first["texts"], first["reason"]) == ("['a', None]", "None")


def test_a_count_that_is_no_time_is_shown_alike_whatever_reads_it():
    alone, beside = (
        json_rows(['{"micros": 1.50}'], 1 << 20),
        json_rows(['{"micros": 1.50}', '{"micros": "2"}'], 1 << 20),
    )
    assert beside[0] == alone[0]


def test_a_lone_carriage_return_ends_no_line_of_csv():
    # As many lines for Arrow's reader, which takes the CR for an end, as there are.
    (row,) = csv_rows("text,whole", ["a,1\rb,2", ""], "\n", 1 << 20)
    assert (row["line"], row["reason"]) == (2, repr("not valid CSV: a carriage return stands alone outside quotes"))


@pytest.mark.parametrize("size", [1 << 20, 64])
def test_an_open_quote_costs_its_line_alone_however_long_the_lines_are(monkeypatch, size):
    monkeypatch.setattr("keyfold.ingestion.parsing.csv_lines.MAX_ROW_CHARACTERS", 100)
    rows = csv_rows("text,whole", ['"open,1', *["x" * 50 + ",1"] * 4, 'close",2'], "\n", size)
    assert [row["line"] for row in rows if row["reason"] != "None"] == [2]
