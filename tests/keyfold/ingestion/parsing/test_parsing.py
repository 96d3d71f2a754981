"""The parser alone, without Spark: plain Python says what each file should give."""

import gzip
import io
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.ingestion.parsing.csv_lines import read_csv
from keyfold.ingestion.parsing.text import UnreadableFileError, chunks
from spark_jobs.streams import RIDE_POINTS
from tests.examples import examples
from tests.keyfold.ingestion.parsing.reading import file_rows

ARRIVED = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = RIDE_POINTS.schema.names
HEADER = ",".join(COLUMNS)
POINT = {
    "ride_id": "r1",
    "point_idx": 3,
    "latitude": 40.7,
    "longitude": -74.0,
    "timestamp": "2016-06-21T17:00:06.25-04:00",
    "meter_reading": 2.5,
    "meter_increment": None,
    "ride_status": "pickup",
    "passenger_count": 2,
}
TYPED = POINT | {"timestamp": datetime(2016, 6, 21, 21, 0, 6, 250_000, tzinfo=UTC)}
CSV_ROW = "r1,3,40.7,-74.0,2016-06-21T17:00:06.25-04:00,2.5,,pickup,2"


def parse(path: Path, content: bytes | str | None = None) -> list[dict[str, Any]]:
    """All rows of a file, by line."""
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return file_rows(RIDE_POINTS, path, ARRIVED)


def events(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in COLUMNS} for row in rows if row["reason"] is None]


def rejects(rows: list[dict[str, Any]]) -> list[tuple[int | None, str | None, str]]:
    return [(row["line"], row["raw"], row["reason"]) for row in rows if row["reason"] is not None]


def csv_text(points: list[dict[str, Any]]) -> str:
    rows = [",".join("" if point[name] is None else str(point[name]) for name in COLUMNS) for point in points]
    return "\n".join([HEADER, *rows]) + "\n"


def table(points: list[dict[str, Any]]) -> pa.Table:
    times = [{**point, "timestamp": datetime.fromisoformat(point["timestamp"])} for point in points]
    return pa.Table.from_pylist(times, schema=RIDE_POINTS.schema)


def ndjson(points: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(point) + "\n" for point in points)


# every format


@pytest.mark.parametrize(
    "name",
    ["a.ndjson", "a.jsonl", "a.json", "A.JSON", "a.ndjson.gz", "a.json.GZ", "a.csv", "a.csv.gz", "a.parquet"],
)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str):
    points = [POINT | {"point_idx": index} for index in range(5)]
    path = tmp_path / name
    kind = name.lower()
    content = csv_text(points).encode() if ".csv" in kind else ndjson(points).encode()
    if kind.endswith(".parquet"):
        pq.write_table(table(points), path)
    else:
        path.write_bytes(gzip.compress(content) if kind.endswith(".gz") else content)
    rows = parse(path)
    assert events(rows) == [TYPED | {"point_idx": index} for index in range(5)]
    assert [row["line"] for row in rows] == [index + 1 + (".csv" in kind) for index in range(5)]


# rows that go to quarantine


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ride_id": None}, "ride_id is missing"),
        ({"timestamp": None}, "timestamp is missing"),
        ({"ride_id": " "}, "ride_id is empty"),
        ({"point_idx": -1}, "point_idx is negative"),
        ({"latitude": 90.1}, "latitude is outside -90 to 90"),
        ({"longitude": -181}, "longitude is outside -180 to 180"),
        ({"ride_status": "parked"}, "ride_status is none of pickup, enroute, dropoff"),
        ({"timestamp": "soon"}, "timestamp is not an ISO 8601 time: soon"),
        ({"timestamp": "2016-02-30T00:00:00Z"}, "timestamp is not an ISO 8601 time: 2016-02-30T00:00:00Z"),
        ({"timestamp": "2016-06-21"}, "timestamp is not an ISO 8601 time: 2016-06-21"),
        ({"timestamp": "1466542806"}, "timestamp is not an ISO 8601 time: 1466542806"),
        ({"timestamp": "0000-01-01T00:00:00Z"}, "timestamp is not an ISO 8601 time: 0000-01-01T00:00:00Z"),
        ({"point_idx": 2.5}, "point_idx is not an integer of 32 bits: 2.5"),
        ({"point_idx": 3_000_000_000}, "point_idx is not an integer of 32 bits: 3000000000"),
        ({"latitude": "north"}, "latitude is not a finite number: north"),
        ({"passenger_count": "two"}, "passenger_count is not an integer of 32 bits: two"),
        (
            {"timestamp": "2026-01-02T00:00:01Z"},
            "timestamp lies more than 1 day past its arrival: 2026-01-02T00:00:01.000000Z",
        ),
    ],
)
def test_a_bad_row_is_rejected_with_its_line_its_text_and_the_reason(
    tmp_path: Path, change: dict[str, Any], reason: str
):
    points = [POINT, POINT | change, POINT]
    rows = parse(tmp_path / "a.ndjson", ndjson(points))
    assert rejects(rows) == [(2, json.dumps(points[1]), reason)]
    assert events(rows) == [TYPED, TYPED]
    rows = parse(tmp_path / "a.csv", csv_text(points))
    assert rejects(rows) == [(3, csv_text(points).splitlines()[2], reason)]
    assert events(rows) == [TYPED, TYPED]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"ride_id": "r1"', "not valid JSON"),
        ("null", "not a JSON object: null"),
        ("[1]", "not a JSON object: [1]"),
        ("rubbish", "not valid JSON"),
        ("{} {}", "not valid JSON: Extra data"),
        (json.dumps(POINT) + json.dumps(POINT), "not valid JSON: Extra data"),
        (json.dumps(POINT | {"ride_id": {"id": 5}}), 'ride_id is not text: {"id": 5}'),
        (json.dumps(POINT | {"point_idx": "3.5"}), "point_idx is not an integer of 32 bits: 3.5"),
        ('{"ride_id": "r1", "ride_id": "r1"}', "ride_id is there twice"),
        (json.dumps(POINT | {"point_idx": True}), "point_idx is not an integer of 32 bits: true"),
        (json.dumps(POINT | {"latitude": [40]}), "latitude is not a finite number: [40]"),
        (json.dumps(POINT | {"latitude": float("nan")}), "latitude is missing"),
        (json.dumps(POINT | {"meter_reading": float("inf")}), "meter_reading is not a finite number: Infinity"),
        (json.dumps(POINT).replace("2.5", "1e999"), "meter_reading is not a finite number: 1e999"),
        (json.dumps(POINT | {"timestamp": 1466542806}), "timestamp is not an ISO 8601 time: 1466542806"),
        (json.dumps(POINT | {"ride_id": "\ud800"}), "ride_id is not text: "),
        ('{"x": ' + "[" * 100_000 + "]" * 100_000 + "}", ""),
    ],
)
def test_a_line_that_is_not_the_right_json_is_rejected_alone(tmp_path: Path, line: str, reason: str):
    good = json.dumps(POINT)
    rows = parse(tmp_path / "a.json", f"{good}\n{line}\n{good}\n")
    assert [(at, raw) for at, raw, _ in rejects(rows)] == [(2, line)]
    assert rejects(rows)[0][2].startswith(reason)
    assert events(rows) == [TYPED, TYPED]


# rows that do not


def test_unknown_fields_blank_lines_and_line_ends_do_not_matter(tmp_path: Path):
    extra = json.dumps(POINT | {"driver": {"name": "x", "ids": [1, 2]}})
    content = f"\ufeff\n{extra}\r\n \t \n\r\n  {json.dumps(POINT)}  "
    rows = parse(tmp_path / "a.json", content)
    assert events(rows) == [TYPED, TYPED]
    assert [row["line"] for row in rows] == [2, 5]
    content = f"\ufeff\r\nextra,{HEADER},more\r\n\r\n,{CSV_ROW},1\r\n   \r\n2,{CSV_ROW},"
    rows = parse(tmp_path / "a.csv", content)
    assert events(rows) == [TYPED, TYPED]
    assert [row["line"] for row in rows] == [4, 6]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2016-06-21T17:00:06Z", 0),
        ("2016-06-21t17:00:06z", 0),
        ("2016-06-21 17:00:06", 0),
        ("2016-06-21T17:00:06.1", 100_000),
        ("2016-06-21T17:00:06,12345Z", 123_450),
        ("2016-06-21T17:00:06.123456000Z", 123_456),
        ("2016-06-21T22:30:06.99999900+05:30", 999_999),
        ("2016-06-21T16:00:06-0100", 0),
        ("2016-06-21T16:00:06-01", 0),
    ],
)
def test_times_of_any_iso_form_become_utc(tmp_path: Path, text: str, micros: int):
    expected = datetime(2016, 6, 21, 17, 0, 6, micros, tzinfo=UTC)
    alone = parse(tmp_path / "a.json", json.dumps(POINT | {"timestamp": text}))
    mixed = parse(tmp_path / "b.json", ndjson([POINT, POINT | {"timestamp": text}, POINT | {"timestamp": "x"}]))
    assert events(alone)[0]["timestamp"] == expected
    assert events(mixed)[1]["timestamp"] == expected


# CSV


def test_a_csv_row_with_the_wrong_number_of_fields_is_rejected_alone(tmp_path: Path):
    content = f'{HEADER}\n{CSV_ROW}\nr1,3\n{CSV_ROW},9\n"r,1",2\n{CSV_ROW}\n'
    rows = parse(tmp_path / "a.csv", content)
    assert rejects(rows) == [
        (3, "r1,3", "the row has 2 fields, the header 9"),
        (4, f"{CSV_ROW},9", "the row has 10 fields, the header 9"),
        (5, '"r,1",2', "the row has 2 fields, the header 9"),
    ]
    assert [row["line"] for row in rows if row["reason"] is None] == [2, 6]


# Parquet


@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [
        ("timestamp", pa.array([1466542806]), "timestamp is not an ISO 8601 time: 1466542806"),
        ("timestamp", pa.array([2**62], pa.timestamp("us")), "timestamp is not an ISO 8601 time"),
        ("timestamp", pa.array([2**62], pa.timestamp("ms", "UTC")), "timestamp is not an ISO 8601 time"),
        ("ride_id", pa.array([17]), "ride_id is not text: 17"),
        ("ride_id", pa.array([b"x"]), "ride_id is not text: "),
        ("latitude", pa.array([[1.0]]), "latitude is not a finite number: [1.0]"),
        ("latitude", pa.array([float("nan")]), "latitude is missing"),
        ("ride_id", pa.array([date(2020, 1, 1)]), "ride_id is not text: 2020-01-01"),
        ("ride_id", pa.array([Decimal(7)], pa.decimal256(60, 0)), "ride_id is not text: 7"),
        ("timestamp", pa.array([Decimal(7)], pa.decimal256(60, 0)), "timestamp is not an ISO 8601 time: 7"),
        ("point_idx", pa.array([Decimal("1.5")]), "point_idx is not an integer of 32 bits: 1.5"),
        (
            "point_idx",
            pa.array([2**64 - 1], pa.uint64()),
            "point_idx is not an integer of 32 bits: 18446744073709551615",
        ),
    ],
)
def test_parquet_values_of_a_wrong_type_are_rejected(tmp_path: Path, column: str, values: pa.Array, reason: str):
    given = table([POINT])
    pq.write_table(given.set_column(COLUMNS.index(column), column, values), tmp_path / "a.parquet")
    ((line, raw, found),) = rejects(parse(tmp_path / "a.parquet"))
    assert line == 1
    assert found.startswith(reason)
    assert json.loads(raw or "")["ride_status"] == "pickup"


# files that cannot be read


def unreadable(tmp_path: Path) -> dict[str, bytes]:
    good = ndjson([POINT] * 1000).encode()
    packed = gzip.compress(good)
    pq.write_table(table([POINT] * 50), tmp_path / "whole.parquet")
    parquet = (tmp_path / "whole.parquet").read_bytes()
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    return {
        "cut.json.gz": packed[:-20],
        "cut_in_trailer.json.gz": packed[:-2],
        "damaged.json.gz": bytes(damaged),
        "trailing.json.gz": packed + b"rubbish",
        "not_gzip.json.gz": good,
        "really_gzip.json": packed,
        "latin1.json": good + "{'ride_id': 'é'}\n".encode("latin-1"),
        "cut_letter.json": good + "é".encode()[:1],
        "utf16.json": good.decode().encode("utf-16"),
        "utf16le.json": good.decode().encode("utf-16-le"),
        "zeros.json": bytes(5000),
        "binary.csv": bytes(range(256)) * 40,
        "cut.parquet": parquet[: len(parquet) // 2],
        "text.parquet": good,
        "notes.txt": b"hello",
        "no_ending": good,
        "x.parquet.gz": gzip.compress(parquet),
        "twice.csv": b"ride_id,ride_id\n1,2\n",
    }


def test_an_unreadable_file_is_rejected_whole_as_one_row_without_a_line(tmp_path: Path):
    for name, content in unreadable(tmp_path).items():
        rows = parse(tmp_path / name, content)
        assert [(row["line"], row["raw"]) for row in rows] == [(None, None)], name
        assert rows[0]["reason"], name
    assert "No such file" in parse(tmp_path / "gone.json")[0]["reason"]


@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.parquet", "a.json.gz", "a.csv.gz"])
def test_an_empty_file_has_no_rows(tmp_path: Path, name: str):
    assert parse(tmp_path / name, b"") == []
    if not name.endswith("parquet"):
        blank = b"\n\n" + (HEADER.encode() if ".csv" in name else b"")
        assert parse(tmp_path / name, gzip.compress(blank) if name.endswith("gz") else blank) == []


# however the text is cut


CSV_FIELD = st.sampled_from(["a", "", '"a,b"', '"q ""x"" q"', '"two\nlines"', '"\n\n"', '5" pipe', "é", " 7 "])


@examples(150)
@given(st.lists(st.lists(CSV_FIELD, min_size=2, max_size=2), max_size=60), st.integers(1, 400))
def test_csv_rows_are_those_that_pythons_csv_reads_however_the_text_is_cut(fields: list[list[str]], size: int):
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    text = "a,b\n" + "".join(",".join(row) + "\n" for row in fields)
    parts = list(read_csv(schema, chunks(io.BytesIO(text.encode()), size)))
    assert not [reject for rows in parts for reject in rows.rejects]
    found = sorted(
        (int(line), row["a"], row["b"], rows.raw(at))
        for rows in parts
        for at, (line, row) in enumerate(zip(rows.lines, rows.columns.to_pylist(), strict=True))
    )
    expected, line = [], 2
    for row in fields:
        raw = ",".join(row)
        plain = [one[1:-1].replace('""', '"') if one.startswith('"') else one for one in row]
        expected.append((line, plain[0] or None, plain[1] or None, raw))
        line += raw.count("\n") + 1
    assert found == expected


# bounds


def bomb(path: Path, line: int, lines: int = 1) -> Path:
    """A gzip file of a thousandth of what it holds."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(lines):
            for _ in range(line >> 20):
                file.write(b"a" * (1 << 20))
            file.write(b"\n")
    return path


def test_a_file_that_holds_more_text_than_it_may_is_found_so_before_it_is_read(tmp_path: Path):
    small = replace(RIDE_POINTS, max_file_bytes=3 << 20)
    (row,) = file_rows(small, bomb(tmp_path / "bomb.ndjson.gz", 1 << 20, 5), ARRIVED)
    assert row["reason"] == "the file holds more than 3 MiB of text, which is its limit"
    pq.write_table(table([POINT] * 20_000), tmp_path / "a.parquet", use_dictionary=False, compression="zstd")
    (row,) = file_rows(replace(RIDE_POINTS, max_file_bytes=1 << 20), tmp_path / "a.parquet", ARRIVED)
    assert row["reason"] == "the file holds more than 1 MiB, which is its limit"


@examples(200)
@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 20), st.integers(1, 12), st.booleans())
def test_text_is_cut_at_line_ends_and_no_line_is_longer_than_it_may_be(
    lengths: list[int], size: int, limit: int, ended: bool
):
    lines = [b"x" * length for length in lengths]
    text = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    if max(lengths, default=0) > limit:
        with pytest.raises(UnreadableFileError, match="a line of more than"):
            list(chunks(io.BytesIO(text), size, max_line=limit))
    else:
        found = list(chunks(io.BytesIO(text), size, max_line=limit))
        assert b"".join(found) == text
        assert all(chunk.endswith(b"\n") for chunk in found[:-1])
