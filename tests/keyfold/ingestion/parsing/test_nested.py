"""Nested data: paths lead into objects and lists, elements of a list become events, and JSON text is kept as it stood."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import Misconfigured
from keyfold.ingestion.parsing.json_texts import text_at, with_one_element
from keyfold.stream import TIMESTAMP, Source, Stream
from keyfold.stream.source import path_of
from tests.examples import examples
from tests.keyfold.ingestion.parsing.reading import file_rows
from tests.schemas import schema_of

ARRIVED = datetime(2026, 1, 1, tzinfo=UTC)
READINGS = Stream(
    name="readings",
    schema=schema_of("device int64!, room string, value float64!, place int64!, time time!"),
    event_time="time",
    event_id=("device", "time", "place"),
    sources={
        "device": Source("device.id"),
        "room": Source(("device.room", "rooms[0].name")),
        "value": Source("readings[].value"),
        "place": Source(place=True),
        "time": Source("sent.at", time="s"),
    },
)
PUSHES = Stream(
    name="pushes",
    schema=schema_of("repository int64!, payload string, whole string, time time!"),
    event_time="time",
    sources={
        "repository": Source("repo.id"),
        "payload": Source("payload", json=True),
        "whole": Source(json=True),
        "time": Source("created_at"),
    },
)
FLAT = Stream(
    "flat",
    pa.schema([one for one in PUSHES.schema if one.name != "whole"]),
    "time",
    sources={name: source for name, source in PUSHES.sources.items() if name != "whole"},
)
MOMENT = datetime(2025, 12, 1, tzinfo=UTC)


def line(**fields: Any) -> str:
    given = {"device": {"id": 7, "room": "hall"}, "sent": {"at": 1764547200}, "readings": [{"value": 1}]}
    return json.dumps({**given, **fields})


def parsed(tmp_path: Path, *lines: str, stream: Stream = READINGS) -> list[dict[str, Any]]:
    path = tmp_path / "a.ndjson"
    path.write_text("".join(f"{one}\n" for one in lines))
    return file_rows(stream, path, ARRIVED)


def reasons(rows: list[dict[str, Any]]) -> list[str | None]:
    return [row["reason"] for row in rows]


def test_paths_lead_through_objects_and_lists_and_whole_numbers_stay_exact(tmp_path):
    rows = parsed(
        tmp_path,
        line(device={"id": 2**53 + 1, "room": "hall", "extra": [{}]}),
        line(device={"id": 2}, rooms=[{"name": "attic"}, {"name": "x"}]),
        line(device={"id": 3}, rooms=[]),
    )
    assert [(row["device"], row["room"], row["value"]) for row in rows] == [
        (2**53 + 1, "hall", 1.0),
        (2, "attic", 1.0),
        (3, None, 1.0),
    ]
    assert rows[0]["time"] == MOMENT


def test_a_path_through_what_is_no_object_is_named(tmp_path):
    rows = parsed(tmp_path, line(device="x"), line(device={"id": "x"}), line(readings={"value": 1}), line())
    assert reasons(rows) == [
        "device is not an object: x",
        "readings[0]: device is not an integer of 64 bits: x",
        'readings is not a list: {"value": 1}',
        None,
    ]


def test_a_bad_element_goes_to_quarantine_with_its_place_and_the_others_are_events(tmp_path):
    rows = parsed(tmp_path, line(readings=[{"value": 1}, {"value": "x"}, None, {}, {"value": 5}]), line())
    assert [(row["line"], row["place"], row["value"]) for row in rows if row["reason"] is None] == [
        (1, 0, 1.0),
        (1, 4, 5.0),
        (2, 0, 1.0),
    ]
    bad = [(row["reason"], json.loads(row["raw"])["readings"]) for row in rows if row["reason"]]
    assert sorted(bad) == [
        ("readings[1]: value is not a finite number: x", [{"value": "x"}]),
        ("readings[2]: not a JSON object: null", [None]),
        ("readings[3]: value is missing: no value in readings[].value", [{}]),
    ]
    assert all(json.loads(row["raw"])["device"] == {"id": 7, "room": "hall"} for row in rows if row["reason"])


def test_a_list_of_plain_values_becomes_events_too(tmp_path):
    schema = pa.schema([("value", pa.float64()), ("place", pa.int64()), ("time", TIMESTAMP)])
    sources = {"value": Source("values[]"), "place": Source(place=True)}
    stream = Stream("plain", schema, "time", sources=sources)
    at = '"time": "2025-12-01T00:00:00Z"'
    rows = parsed(tmp_path, f'{{{at}, "values": [1, null, 2.5]}}', f'{{{at}, "values": [3, "x"]}}', stream=stream)
    assert [(row["line"], row["place"], row["value"], row["reason"]) for row in rows] == [
        (1, 0, 1.0, None),
        (1, 1, None, None),
        (1, 2, 2.5, None),
        (2, 0, 3.0, None),
        (2, None, None, "values[1]: value is not a finite number: x"),
    ]


def test_a_column_of_the_very_name_comes_before_the_path(tmp_path):
    text = '{"device.id": 5, "readings": [{"value": 1}], "sent": {"at": 1764547200}, "device": {"id": 9}}'
    (row,) = parsed(tmp_path, text)
    assert row["device"] == 5


def test_csv_has_paths_as_its_columns_names_and_no_lists(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("repo.id,payload,created_at\n5,{},2025-12-01T00:00:00Z\n")
    (row,) = file_rows(FLAT, path, ARRIVED)
    assert (row["repository"], row["payload"], row["reason"]) == (5, "{}", None)
    assert reasons(file_rows(READINGS, path, ARRIVED)) == [
        "the file is CSV, which has no lists or objects, but stream readings needs readings[]"
    ]
    assert reasons(file_rows(PUSHES, path, ARRIVED)) == [
        "the file is CSV, which has no lists or objects, but stream pushes needs the text of a whole JSON line"
    ]


def test_parquet_gives_what_json_gives(tmp_path):
    lines = [
        line(),
        line(device={"id": 2**53 + 1}, rooms=[{"name": "attic"}]),
        line(readings=[{"value": 1.5}, {"value": None}, None, {"value": 4}]),
        line(readings=[]),
        line(readings=None),
    ]
    schema = pa.schema(
        [
            ("device", pa.struct([("id", pa.int64()), ("room", pa.string())])),
            ("sent", pa.struct([("at", pa.float64())])),
            ("readings", pa.large_list(pa.struct([("value", pa.float64())]))),
            ("rooms", pa.list_(pa.struct([("name", pa.string())]))),
        ]
    )
    pq.write_table(pa.Table.from_pylist([json.loads(one) for one in lines], schema), tmp_path / "a.parquet")
    found = file_rows(READINGS, tmp_path / "a.parquet", ARRIVED)
    expected = parsed(tmp_path, *lines)
    assert [row | {"raw": None} for row in found] == [row | {"raw": None} for row in expected]
    assert [json.loads(row["raw"])["readings"] for row in found if row["reason"]] == [[None], [{"value": None}], None]


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("device", ["x"], "device holds string and not objects, but the stream reads fields of it"),
        ("readings", [1], "readings holds int64 and not lists, but the stream reads elements of it"),
    ],
)
def test_a_parquet_column_without_fields_is_refused_with_its_file(tmp_path, column, values, told):
    pq.write_table(pa.table({column: values}), tmp_path / "a.parquet")
    assert reasons(file_rows(READINGS, tmp_path / "a.parquet", ARRIVED)) == [f"the file's column {told}"]


def test_json_text_is_kept_to_the_byte_beside_paths_into_it(tmp_path):
    payload = '{"n": 9007199254740993.0, "e":1e2,"s":"\\u00e9\\"}" , "deep":[{"payload": 1}],"n":1}'
    text = f'{{"repo":{{"id":1}}, "payload" : {payload} ,"created_at":"2025-12-01T00:00:00Z"}}'
    other = '{"repo":{"id":2},"payload":null,"created_at":"2025-12-01T00:00:00Z"}'
    for more in ([], ["{", '{"repo": 1}']):
        first, second, *_ = parsed(tmp_path, f"  {text}", other, *more, stream=PUSHES)
        assert (first["payload"], first["whole"]) == (payload, text)
        assert (second["payload"], second["whole"]) == (None, other)


def test_of_parquet_json_text_is_what_the_value_says(tmp_path):
    table = pa.table(
        {
            "repo": [{"id": 1}, {"id": 2}],
            "payload": [{"a": 1, "b": ["x"]}, None],
            "created_at": ["2025-12-01T00:00:00Z"] * 2,
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    first, second = file_rows(FLAT, tmp_path / "a.parquet", ARRIVED)
    assert (json.loads(first["payload"]), second["payload"]) == ({"a": 1, "b": ["x"]}, None)


def test_a_list_whose_elements_would_share_too_much_costs_its_line_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("keyfold.ingestion.parsing.exploding.LIST_BYTES", 10_000)
    monkeypatch.setattr("keyfold.ingestion.parsing.exploding.PIECE_BYTES", 1_000)
    many = [{"value": one} for one in range(100)]
    rows = parsed(tmp_path, line(device={"id": 1, "room": "x" * 500}, readings=many), line(readings=many))
    assert [(row["line"], row["place"]) for row in rows if row["reason"] is None] == [(2, one) for one in range(100)]
    assert "readings has 100 elements" in rows[0]["reason"]


READING = st.fixed_dictionaries({}, optional={"value": st.one_of(st.none(), st.integers(-5, 5), st.just("x"))})
LINES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "device": st.fixed_dictionaries({}, optional={"id": st.integers(0, 3)}),
            "readings": st.lists(READING),
        },
    ),
    min_size=1,
    max_size=6,
)


@examples(60)
@given(LINES)
def test_elements_are_those_that_duckdb_unnests(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("lines") / "a.ndjson"
    path.write_text("".join(json.dumps({**one, "sent": {"at": 1764547200}}) + "\n" for one in lines))
    found = file_rows(READINGS, path, ARRIVED)
    expected = duckdb.execute(
        """
        WITH lines AS (
            SELECT row_number() OVER () AS line, json->>'$.device.id' AS device, (json->'$.readings')::JSON[] AS list
            FROM read_ndjson_objects($path)
        ), elements AS (
            SELECT line, device, unnest(range(len(list))) AS place, unnest(list)->>'value' AS value FROM lines
        )
        SELECT line, place, value FROM elements
        WHERE device IS NOT NULL AND try_cast(value AS INT) IS NOT NULL ORDER BY line, place
        """,
        {"path": str(path)},
    ).fetchall()
    assert [(row["line"], row["place"], str(int(row["value"]))) for row in found if row["reason"] is None] == expected
    count = sum(len(one["readings"]) for one in lines if "readings" in one)
    assert len(found) == count + sum("readings" not in one for one in lines)


TEXT = st.sampled_from(['"a"', '"{"', '"\\\\"', '"\\""', '"é]"', '"b"', '""'])
VALUE = st.recursive(
    st.one_of(TEXT, st.sampled_from(["1", "-2.50", "1e2", "true", "null", "{}", "[ ]"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda values: f"[{' ,'.join(values)}]"),
        st.lists(st.tuples(TEXT, inner), max_size=3).map(
            lambda fields: "{ " + ",".join(f"{key} :{value}" for key, value in fields) + "}"
        ),
    ),
    max_leaves=8,
)
FIELDS = st.lists(st.tuples(TEXT, st.sampled_from(["", " ", "\t"]), VALUE), max_size=4)


@examples(300)
@given(st.lists(FIELDS, min_size=1, max_size=5), st.sampled_from(["a", "b", "é]", '"', "\\", ""]))
def test_the_text_of_a_key_is_what_was_written_there(lines, key):
    texts = [
        "{" + ",".join(f"{name}{blank}:{blank}{value}{blank}" for name, blank, value in line) + "}" for line in lines
    ]
    written = [{json.loads(name): value for name, _, value in line}.get(key) for line in lines]
    assert [text_at(text, (key,)) for text in texts] == [None if value == "null" else value for value in written]
    deeper = [text_at(text, (key, "a")) for text in texts]
    outer = [json.loads(value or "null") for value in written]
    inner = [one.get("a") if isinstance(one, dict) else None for one in outer]
    assert [None if one is None else json.loads(one) for one in deeper] == inner


def test_an_element_keeps_what_stands_beside_its_list_unless_that_is_long():
    text = '{"a": {"l": [1.0, {"l": "]"} ,"x"], "b": 2}, "c": [3]}'
    cut = with_one_element(text, ("a", "l"))
    assert [cut(place) for place in range(3)] == [
        '{"a": {"l": [1.0], "b": 2}, "c": [3]}',
        '{"a": {"l": [{"l": "]"}], "b": 2}, "c": [3]}',
        '{"a": {"l": ["x"], "b": 2}, "c": [3]}',
    ]
    long = json.dumps({"beside": "x" * 100_000, "l": [1, 2]})
    assert with_one_element(long, ("l",))(1) == "…2"
    assert with_one_element("{", ("l",))(0) == "{"


@pytest.mark.parametrize("name", ["speed [km/h]", "a..b", "", "x[", "kafka_header.trace", "payload{}", "a[b]"])
def test_a_name_that_is_no_path_is_a_column_and_no_more(name):
    assert path_of(name) == (name,)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"value": Source("readings[].values[]")}, "has [] twice"),
        ({"value": Source("readings[].value"), "room": Source("rooms[].name")}, "stands for the elements of"),
        ({"place": Source(place=True), "value": Source("value")}, "no other leads into the elements of a list"),
        ({"value": Source("value", json=True)}, "json=True, which is for a column of type string"),
        ({"room": Source("readings[].room", json=True)}, "leads into a list"),
        ({"place": Source("place"), "device": Source("device.id")}, "all elements of a list would be copies"),
    ],
)
def test_sources_that_make_no_sense_are_refused_when_definitions_load(changes, said):
    with pytest.raises(Misconfigured) as refused:
        Stream("wrong", READINGS.schema, "time", event_id=READINGS.event_id, sources={**READINGS.sources, **changes})
    assert said in str(refused.value)


def test_text_that_holds_a_private_value_is_private_too():
    with pytest.raises(Misconfigured, match="payload keeps the text that the private user is taken from"):
        Stream(
            "leak",
            pa.schema([("user", pa.string()), ("payload", pa.string()), ("time", TIMESTAMP)]),
            "time",
            sources={"user": Source("payload.user.name"), "payload": Source("payload", json=True)},
            private=("user",),
        )


PAGE = Path(__file__).parents[4] / "docs" / "reference" / "streams.md"
PLAIN = {"order": "7", "at": "2025-12-01T00:00:00Z"}


def shown(module: dict[str, Any]) -> tuple[Stream, list[tuple[Any, str]]]:
    """The stream that the page declares, and its table of lists and what becomes of them."""
    code, after = re.findall(r"```python\n(.*?)```(.*)", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    exec(code, module)  # noqa: S102 - our own page
    rows = re.findall(r"\| `([\[{].*)` \| (.*) \|", after)
    return module["ORDERS"], [(json.loads(items), becomes) for items, becomes in rows]


def test_lists_of_objects_become_what_the_page_says(tmp_path):
    orders, rows = shown({})
    found = parsed(tmp_path, *(json.dumps(PLAIN | {"items": items}) for items, _ in rows), stream=orders)
    assert len(rows) == 4
    for (items, becomes), row in zip(rows, found, strict=True):
        if "quarantine" in becomes:
            assert row["reason"].startswith(becomes.removeprefix("quarantine: *").removesuffix("*"))
        else:
            assert row["items"] == [{"name": one["name"], "price": one.get("price")} for one in items]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (None, "items is missing"),
        ([None], [None]),
        ([{"name": "a", "price": 1}, {"price": 2, "name": None}], [("a", 1.0), (None, 2.0)]),
        ([{"name": "a", "more": 1}, {}], [("a", None), (None, None)]),
        ([{"name": "a", "price": float("inf")}], "items[0].price is not a finite number"),
        ([{"name": "a", "price": float("nan")}], [("a", None)]),
        ([{"name": True, "price": "x"}], "items[0]."),
        (["a"], "items"),
        ("a", "items"),
    ],
)
def test_parquet_gives_the_lists_of_objects_that_json_gives(tmp_path, items, expected):
    orders, _ = shown({})
    others = PLAIN | {"items": [{"name": "x", "price": 0.5}]}
    row = PLAIN | {"items": items}
    (tmp_path / "b.ndjson").write_text(f"{json.dumps(row)}\n{json.dumps(others)}\n".replace("Infinity", "1e400"))
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "b.parquet")
    for ending in ("ndjson", "parquet"):
        found = file_rows(orders, tmp_path / f"b.{ending}", ARRIVED)[0]
        if isinstance(expected, str):
            assert expected in found["reason"]
        else:
            assert [one and (one["name"], one["price"]) for one in found["items"]] == expected
