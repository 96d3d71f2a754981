"""Values keep what they are in every format: whole numbers to the last digit, times and lists however they are stored."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.stream import TIMESTAMP, Source, Stream
from tests.examples import examples
from tests.keyfold.ingestion.parsing.reading import file_rows
from tests.schemas import schema_of

ARRIVED = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT = datetime(2020, 1, 1, tzinfo=UTC)
STREAM = Stream(
    name="values",
    schema=schema_of("id int64, amount float64, text string, texts strings, at time"),
    event_time="at",
    missing_time="arrival",
    sources={"id": Source(("id", "number"))},
)


def read(path: Path, column: str) -> list:
    return [row["reason"] or row[column] for row in file_rows(STREAM, path, ARRIVED)]


def read_parquet(path: Path, column: str, values: pa.Array, **options) -> list:
    pq.write_table(pa.table({column: values}), path, **options)
    return read(path, column)


@examples(60)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_distinct_ids_stay_distinct_in_every_format_and_spelling(tmp_path_factory, ids):
    folder = tmp_path_factory.mktemp("ids")
    for spelling in ("{}", "{}.0", "{}.00e0"):
        (folder / "a.csv").write_text("id,text\n" + "".join(f"{spelling.format(one)},x\n" for one in ids))
        (folder / "a.json").write_text("".join(f'{{"id": {spelling.format(one)}}}\n' for one in ids))
        assert read(folder / "a.csv", "id") == read(folder / "a.json", "id") == ids
    numbers = [Decimal(one) for one in ids]
    for kind in (pa.decimal128(38, 0), pa.decimal128(38, 3), pa.decimal256(60, 2)):
        assert read_parquet(folder / "a.parquet", "id", pa.array(numbers, kind)) == ids


KINDS = Stream("kinds", schema_of("at time, price price, day date, counts numbers, pair pair"), "at", "arrival")
CENTS = st.integers(-(10**10) + 1, 10**10 - 1)
DAYS = st.dates(date(1, 1, 1), date(9999, 12, 31))


@examples(60)
@given(st.lists(st.tuples(CENTS, DAYS), min_size=1, max_size=10))
def test_decimals_and_dates_are_what_they_were_in_every_format_and_spelling(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("kinds")
    expected = [(Decimal(cents).scaleb(-2), day) for cents, day in values]
    for spelling in ("{}", "{}000", "{:.3e}"):
        spelt = [(spelling.format(price), day) for price, day in expected]
        kept = [one for one, (text, _) in zip(expected, spelt, strict=True) if Decimal(text) == one[0]]
        spelt = [one for one, (price, _) in zip(spelt, expected, strict=True) if Decimal(one[0]) == price]
        (folder / "a.csv").write_text("price,day\n" + "".join(f"{price},{day}\n" for price, day in spelt))
        (folder / "a.json").write_text(
            "".join(
                f'{{"price": {price}, "day": "{day}"}}\n{{"price": "{price}", "day": "{day}"}}\n'
                for price, day in spelt
            )
        )
        assert [(row["price"], row["day"]) for row in file_rows(KINDS, folder / "a.csv", ARRIVED)] == kept
        twice = [one for one in kept for _ in range(2)]
        assert [(row["price"], row["day"]) for row in file_rows(KINDS, folder / "a.json", ARRIVED)] == twice
    prices, days = zip(*expected, strict=True)
    for kind in (pa.decimal128(10, 2), pa.decimal128(38, 20), pa.decimal256(60, 5)):
        pq.write_table(pa.table({"price": pa.array(prices, kind), "day": list(days)}), folder / "a.parquet")
        assert [(row["price"], row["day"]) for row in file_rows(KINDS, folder / "a.parquet", ARRIVED)] == expected


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ('"price": 1.505', "price is not a number of at most 10 digits, 2 of them after the point: 1.505"),
        ('"price": 123456789', "price is not a number of at most 10 digits, 2 of them after the point: 123456789"),
        ('"price": true', "price is not a number of at most 10 digits, 2 of them after the point: true"),
        ('"day": "2026-02-30"', "day is not a date such as 2026-01-31: 2026-02-30"),
        ('"day": "2026-01-31T10:00:00Z"', "day is not a date such as 2026-01-31: 2026-01-31T10:00:00Z"),
        ('"day": 20260131', "day is not a date such as 2026-01-31: 20260131"),
        ('"counts": [1, 2.5]', "counts[1] is not an integer of 64 bits: 2.5"),
        ('"counts": 7', "counts is not a list: 7"),
        ('"pair": {"n": "x"}', "pair.n is not an integer of 64 bits: x"),
        ('"pair": {"on": "soon"}', "pair.on is not a date such as 2026-01-31: soon"),
        ('"pair": [1]', "pair is not an object: [1]"),
    ],
)
def test_a_value_of_another_type_is_quarantined_and_the_lines_beside_it_are_read(tmp_path, field, reason):
    good = '{"price": 1.5, "day": "2026-01-31", "counts": [1, null], "pair": {"n": 1, "on": "2026-01-31"}}'
    (tmp_path / "a.json").write_text(f"{good}\n{{{field}}}\n{good}\n")
    first, bad, last = file_rows(KINDS, tmp_path / "a.json", ARRIVED)
    assert bad["reason"].startswith(reason)
    for row in (first, last):
        assert (row["price"], row["day"], row["counts"]) == (Decimal("1.50"), date(2026, 1, 31), [1, None])
        assert row["pair"] == {"n": 1, "on": date(2026, 1, 31)}


def test_a_count_from_1970_in_far_years_is_exact(tmp_path):
    stream = Stream("far", pa.schema([("at", TIMESTAMP)]), "at", sources={"at": Source(("at",), time="us")})
    moment, micros = datetime(1600, 1, 1, 0, 0, 0, 1, UTC), -11_676_095_999_999_999
    (tmp_path / "a.csv").write_text(f"at\n{micros}\n")
    (tmp_path / "a.json").write_text(json.dumps({"at": micros}))
    pq.write_table(pa.table({"at": [micros]}), tmp_path / "a.parquet")
    for name in ("a.csv", "a.json", "a.parquet"):
        assert [row["at"] for row in file_rows(stream, tmp_path / name, ARRIVED)] == [moment]


@pytest.mark.parametrize(
    ("column", "values", "found"),
    [
        *(
            ("at", values, [MOMENT])
            for values in (
                pa.array([MOMENT], TIMESTAMP).dictionary_encode(),
                pa.array(["2020-01-01T00:00:00Z"]).dictionary_encode(),
                pa.array(["2020-01-01T01:00:00+01:00"], pa.large_string()),
                pa.array([date(2020, 1, 1)]),
                pa.array([date(2020, 1, 1)]).dictionary_encode(),
                pa.array([date(2020, 1, 1)], pa.date64()),
            )
        ),
        *(
            ("texts", pa.array([["a", None], None], kind), [["a", None], None])
            for kind in (
                pa.list_(pa.string(), 2),
                pa.large_list(pa.large_string()),
                pa.list_(pa.dictionary(pa.int32(), pa.string())),
                pa.list_view(pa.string()),
                pa.list_(pa.string_view()),
            )
        ),
        (
            "texts",
            pa.array([[Decimal(7)]], pa.list_(pa.decimal256(60, 0))),
            ["texts is not a text or a list of texts: b\"[Decimal('7')]\""],
        ),
        # A source of the column beside one without a value.
        (
            "number",
            pa.array([2.0**61, 7.0]),
            ["id is a float too large to stand for one whole number alone: 2.305843009213694e+18", 7],
        ),
    ],
    ids=lambda given: str(given.type) if isinstance(given, pa.Array) else None,
)
def test_values_of_parquet_are_read_however_they_are_stored_or_quarantined(tmp_path, column, values, found):
    table = {column: values} | ({"id": pa.nulls(2, pa.int64())} if column == "number" else {})
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", "id" if column == "number" else column) == found


def test_times_of_old_spark_keep_their_year(tmp_path):
    values = pa.array([datetime(1020, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001 - as Spark writes it
    found = read_parquet(tmp_path / "a.parquet", "at", values, use_deprecated_int96_timestamps=True)
    assert found == [datetime(1020, 1, 1, tzinfo=UTC)]
