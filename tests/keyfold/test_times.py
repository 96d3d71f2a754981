"""Times that people write, and times as whole microseconds: taken exactly or refused, whatever door they come by."""

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.exact_cast import exact_cast
from keyfold.ingestion.parsing.time_formats import read_times
from keyfold.lakehouse import Lakehouse
from keyfold.state.making.sources import open_source, reading
from keyfold.state.rows.lines import json_lines
from keyfold.stream import TIMESTAMP, Source, Stream
from keyfold.times import exact_times, from_micros, micros, parse_time, to_micros, to_times
from tests.examples import examples
from tests.keyfold.ingestion.parsing.reading import file_rows

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00", "2026-01-31 12:00", "2026-01-31T14:00:00+02:00"]
)
def test_a_time_is_utc_unless_it_says_otherwise(text):
    assert parse_time("since", text) == NOON


def test_no_time_is_none():
    assert parse_time("since", None) is None


@pytest.mark.parametrize("text", ["", "noon", "31.01.2026", "12:00"])
def test_what_is_no_time_is_named_with_what_it_was_given_for(text):
    with pytest.raises(KeyfoldError, match=f"since is {text!r}; give an ISO 8601 time"):
        parse_time("since", text)


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_come_back_from_microseconds_as_they_were(time):
    assert from_micros(micros(time)) == time
    assert to_times(to_micros(to_times(np.array([micros(time)])))).to_list() == [time]


def test_microseconds_of_a_time_count_from_1970_whatever_its_offset():
    assert micros(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=1)))) == 3_600_000_000
    assert micros(timedelta(days=-1, microseconds=1)) == -86_399_999_999


TIME = pl.Datetime("us", "UTC")
ARRIVED = datetime(2026, 1, 1, tzinfo=UTC)
WHOLE = datetime(2020, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)
FINER = "2020-01-01T00:00:00.1234567Z"
STREAM = Stream(name="moments", schema=pa.schema([("at", TIMESTAMP)]), event_time="at", sources={"at": Source(("at",))})


def read(path: Path, **source) -> list:
    stream = Stream(
        name="moments",
        schema=pa.schema([("at", TIMESTAMP)]),
        event_time="at",
        sources={"at": Source(("at",), **source)},
    )
    return [row["reason"] or row["at"] for row in file_rows(stream, path, ARRIVED)]


@examples(100)
@given(st.datetimes(), st.text("0123456789", max_size=12), st.sampled_from(".,"))
def test_a_text_is_the_time_that_it_says_in_ingest_and_in_state_or_none(moment, digits, mark):
    text = f"{moment:%H:%M:%S}{mark}{digits}" if digits else f"{moment:%H:%M:%S}"
    texts = pl.Series([f"{moment.year:04}-{moment:%m-%d}T{text}Z"])
    # As a fraction of plain Python's, not as digits.
    micros = Decimal(f"0.{digits}0") * 1_000_000
    expected = None
    if micros == int(micros):
        expected = moment.replace(microsecond=0, tzinfo=UTC) + timedelta(microseconds=int(micros))
    assert exact_times(texts).to_list() == exact_cast(texts, TIME).to_list() == [expected]


@examples(100)
@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["ns", "us", "ms"]))
def test_a_stored_time_is_itself_or_none(ticks, unit):
    per_micro = {"ns": 1000, "us": 1, "ms": Decimal("0.001")}[unit]
    micros = Decimal(ticks) / Decimal(per_micro)
    try:
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(micros))
        expected = time if micros == int(micros) else None
    except OverflowError:
        expected = None
    for kind in (pl.Datetime(unit), pl.Datetime(unit, "UTC")):
        given_times = pl.Series([ticks]).cast(kind)
        assert exact_times(given_times).to_list() == exact_cast(given_times, TIME).to_list() == [expected]


def test_files_of_every_format_are_quarantined_by_row_where_a_time_is_finer(tmp_path: Path):
    texts = [
        "2020-01-01T00:00:00.123456Z",
        "2020-01-01T00:00:00.123456000Z",
        FINER,
        "2020-01-01T02:00:00.123456001+02:00",
    ]
    (tmp_path / "a.csv").write_text("at\n" + "\n".join(f'"{text}"' for text in texts) + "\n")
    (tmp_path / "a.json").write_text("\n".join(json.dumps({"at": text}) for text in texts))
    reasons = [f"at is finer than a microsecond: {text}" for text in texts[2:]]
    assert sorted(map(str, read(tmp_path / "a.csv"))) == sorted(map(str, [WHOLE, WHOLE, *reasons]))
    assert sorted(map(str, read(tmp_path / "a.json"))) == sorted(map(str, [WHOLE, WHOLE, *reasons]))
    nanos = int(WHOLE.timestamp()) * 10**9 + 123_456_000
    for zone in (None, "UTC", "Asia/Kolkata"):
        pq.write_table(
            pa.table({"at": pa.array([nanos, nanos + 700], pa.timestamp("ns", zone))}), tmp_path / "a.parquet"
        )
        found = sorted(map(str, read(tmp_path / "a.parquet")))
        assert found == [str(WHOLE), "at is finer than a microsecond: 2020-01-01T00:00:00.123456700"]


FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


def write_int96(path: Path, values: list, unit: str) -> None:
    column = pa.array(values, pa.timestamp(unit))
    nested = pa.array([[{"at": value}] for value in column.to_pylist()] if unit == "us" else [[]] * len(values))
    table = pa.table({"at": column, "more": nested}) if unit == "us" else pa.table({"at": column})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, store_schema=False)


def test_times_of_96_bits_keep_all_years_in_ingest_and_in_state(tmp_path: Path):
    write_int96(tmp_path / "a.parquet", [FIRST, 0, LAST], "us")
    expected = exact_times(pl.Series([FIRST, 0, LAST]).cast(pl.Datetime("us")))
    bounded = [
        row["reason"] or row["at"]
        for row in file_rows(STREAM, tmp_path / "a.parquet", datetime.max.replace(tzinfo=UTC))
    ]
    assert bounded == expected.to_list()
    rows = open_source(Lakehouse(tmp_path / "home"), str(tmp_path / "a.parquet")).collect()
    assert exact_cast(rows["at"], TIME).to_list() == expected.to_list()
    assert rows["more"].list.first().struct.field("at").to_list() == rows["at"].to_list()


def test_a_file_with_a_time_of_96_bits_that_is_finer_is_refused(tmp_path: Path):
    write_int96(tmp_path / "a.parquet", [10**18, 10**18 + 1], "ns")
    why = "has a time that is finer than a microsecond: column at, among rows 1 to 2"
    assert read(tmp_path / "a.parquet") == [f"the file {why}"]
    with pytest.raises(KeyfoldError, match=why):
        open_source(Lakehouse(tmp_path / "home"), str(tmp_path / "a.parquet"))


def test_a_delta_table_with_finer_times_than_its_log_says_is_refused_and_cut_by_nobody(tmp_path: Path):
    write_deltalake(str(tmp_path / "table"), pa.table({"at": pa.array([0], pa.timestamp("us", "UTC"))}))
    (file,) = (tmp_path / "table").glob("*.parquet")
    size = file.stat().st_size
    pq.write_table(pa.table({"at": pa.array([10**18 + 1], pa.timestamp("ns", "UTC"))}), file)
    (log,) = (tmp_path / "table" / "_delta_log").glob("*.json")
    log.write_text(log.read_text().replace(f'"size":{size}', f'"size":{file.stat().st_size}'))
    assert DeltaTable(str(tmp_path / "table")).version() == 0
    with pytest.raises(KeyfoldError, match="would lose data"), reading("table"):
        open_source(Lakehouse(tmp_path / "home"), str(tmp_path / "table")).collect()


@pytest.mark.parametrize(
    ("shape", "whole", "finer"),
    [
        ("%d/%m/%Y %H:%M:%S%.f", "01/01/2020 00:00:00.123456", "01/01/2020 00:00:00.1234567"),
        ("%d/%m/%Y %H:%M:%S%.f", "01/01/2020 00:00:00.123456000", "01/01/2020 00:00:00.123456001"),
        ("%Y%m%d%H%M%S%9f", "20200101000000123456000", "20200101000000123456789"),
        ("s", "1577836800.123456000", "1577836800.1234567"),
        ("s", "1577836800.123456", "1577836800.1234560000001"),
        ("ms", "1577836800123.456", "1577836800123.4567"),
        ("us", "1577836800123456.0", "1577836800123456.5"),
        ("ns", "1577836800123456000", "1577836800123456789"),
    ],
)
def test_times_of_a_declared_shape_are_exact_or_none(shape, whole, finer):
    assert read_times(pl.Series([whole, finer]), [shape]).to_list() == [WHOLE, None]


def test_times_of_a_declared_shape_outside_the_years_of_nanoseconds_are_exact_or_none():
    given_texts = pl.Series(["01/01/3020 00:00:00.123456", "01/01/1020 00:00:00.1234567"])
    found = read_times(given_texts, ["%d/%m/%Y %H:%M:%S%.f"]).to_list()
    assert found == [WHOLE.replace(year=3020), None]


@examples(100)
@given(st.integers(0, 4 * 10**15), st.sampled_from([("s", 10**6), ("ms", 10**3)]))
def test_a_float_stands_for_the_microsecond_that_it_is_the_nearest_float_of(micros, unit):
    shape, factor = unit
    (found,) = read_times(pl.Series([micros / factor]), [shape]).to_physical().to_list()
    assert found == micros
    (finer,) = read_times(pl.Series([0.123_456_7 if shape == "s" else 0.123_4]), [shape]).to_list()
    assert finer is None


def test_what_a_person_types_is_refused_where_it_is_finer():
    assert parse_time("--watermark", "2020-01-01T00:00:00.123456000Z") == WHOLE
    with pytest.raises(KeyfoldError, match=r"--watermark is .*finer than a microsecond"):
        parse_time("--watermark", FINER)


def test_a_column_of_nanoseconds_is_written_with_all_its_digits():
    rows = pl.DataFrame({"at": pl.Series([10**18 + 1]).cast(pl.Datetime("ns", "UTC"))})
    assert json_lines(rows).to_list() == ['{"at":"2001-09-09T01:46:40.000000001Z"}']
