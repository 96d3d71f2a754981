"""What a stream says of its files is what they are read by, and of several time formats none is guessed."""

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import FileFormat, Lakehouse, ingest
from keyfold.errors import IncompatibleState, Misconfigured
from keyfold.stream import TIMESTAMP, Source, Stream
from tests.examples import examples
from tests.keyfold.ingestion.parsing.reading import file_rows
from tests.schemas import schema_of

ARRIVED = datetime(2026, 12, 1, tzinfo=UTC)
SCHEMA = schema_of("name string, amount float64, price price, count int64, at time")
TEXT = st.text(
    st.characters(codec="cp1252", exclude_characters="\0", exclude_categories=["Cc"]), min_size=1, max_size=6
)


def stream(source: Source | None = None, **form: Any) -> Stream:
    return Stream("sales", SCHEMA, "at", "arrival", sources={"at": source} if source else {}, format=FileFormat(**form))


def times(tmp_path: Path, values: Sequence[str], source: Source | None = None, **form: Any) -> list[Any]:
    (tmp_path / "a.csv").write_text("name,at\n" + "".join(f"x,{value}\n" for value in values), encoding="utf-8")
    (tmp_path / "a.ndjson").write_text(
        "".join(f'{{"name":"x","at":"{value}"}}\n' for value in values), encoding="utf-8"
    )
    found = [
        [row["reason"] or row["at"] for row in file_rows(stream(source, **form), tmp_path / name, ARRIVED)]
        for name in ("a.csv", "a.ndjson")
    ]
    assert found[0] == found[1]
    return found[0]


@examples(200)
@given(
    st.lists(st.tuples(TEXT, st.integers(-(10**7), 10**7)), min_size=1, max_size=5),
    st.sampled_from(";\t|,"),
    st.sampled_from("., "),
    st.sampled_from(["utf-8", "cp1252", "utf-16", "utf-8-sig", "latin-1"]),
)
def test_a_file_is_read_as_its_stream_says(tmp_path_factory, rows, delimiter, decimal, encoding):
    decimal = "." if decimal == delimiter or not decimal.strip() else decimal
    rows = [
        (name if encoding != "latin-1" else name.encode("latin-1", "replace").decode("latin-1"), cents)
        for name, cents in rows
    ]
    path, text = tmp_path_factory.mktemp("files") / "a.csv", io.StringIO()
    spelt = [(name, f"{cents / 100:.2f}".replace(".", decimal)) for name, cents in rows]
    csv.writer(text, delimiter=delimiter).writerows(
        [["name", "amount", "price"], *((name, one, one) for name, one in spelt)]
    )
    path.write_bytes(text.getvalue().encode(encoding))
    found = file_rows(stream(delimiter=delimiter, decimal=decimal, encoding=encoding), path, ARRIVED)
    assert [row["reason"] for row in found] == [None] * len(rows)
    assert [(row["name"], row["amount"], int(row["price"] * 100)) for row in found] == [
        (name, float(f"{cents / 100:.2f}"), cents) for name, cents in rows
    ]


def test_a_decimal_comma_is_the_only_sign_before_a_fraction_and_of_csv(tmp_path):
    (tmp_path / "a.csv").write_text("amount;price;count\n1,5;1,50;2,0\n1.5;;\n1.234,5;;\n;1.5;\n;;1,5\n")
    found = file_rows(stream(delimiter=";", decimal=","), tmp_path / "a.csv", ARRIVED)
    assert [row["reason"] and row["reason"].partition(":")[0].split()[0] for row in found] == [
        None,
        "amount",
        "amount",
        "price",
        "count",
    ]
    assert (found[0]["amount"], float(found[0]["price"]), found[0]["count"]) == (1.5, 1.5, 2)
    assert "1.234,5" in found[2]["reason"]
    (tmp_path / "a.ndjson").write_text('{"amount": 1.5}\n{"amount": "1,5"}\n')
    good, bad = file_rows(stream(delimiter=";", decimal=","), tmp_path / "a.ndjson", ARRIVED)
    assert (good["amount"], bad["reason"]) == (1.5, "amount is not a finite number: 1,5")


@examples(200)
@given(
    st.datetimes().map(lambda moment: moment.replace(year=1950 + moment.year % 76, day=min(moment.day, 28))),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "UTC"]),
)
def test_a_time_without_a_zone_is_of_the_streams_zone_as_plain_python_says(tmp_path_factory, moment, zone):
    moment = moment.replace(microsecond=0)
    readings = {moment.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1)}
    # A time that clocks do not show comes back as another one, and one that they show twice as two.
    real = {one for one in readings if one.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == moment}
    folder = tmp_path_factory.mktemp("zones")
    for text, source in (
        (f"{moment:%Y-%m-%dT%H:%M:%S}", None),
        (f"{moment:%d/%m/%Y %H:%M:%S}", Source("at", time="%d/%m/%Y %H:%M:%S")),
    ):
        ((found),) = times(folder, [text], source, zone=zone)
        assert found == next(iter(real)) if len(real) == 1 else str(found).startswith("at is not an ISO 8601 time")
    assert times(folder, [f"{moment.isoformat()}+02:00"], zone=zone) == [
        moment.replace(tzinfo=UTC) - timedelta(hours=2)
    ]


def test_a_column_may_have_times_of_several_formats_and_none_is_guessed(tmp_path):
    several = Source("at", time=("iso", "ms", "%d/%m/%Y"))
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert times(tmp_path, ["2026-01-31T12:00:00Z", "1769860800000", "31/01/2026", "soon"], several)[:3] == [
        noon,
        noon,
        noon - timedelta(hours=12),
    ]
    both = times(tmp_path, ["03/04/2026", "31/01/2026", "03/03/2026"], Source("at", time=("%d/%m/%Y", "%m/%d/%Y")))
    assert (str(both[0])[:9], both[1:]) == (
        "at is not",
        [datetime(2026, 1, 31, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC)],
    )
    (tmp_path / "b.ndjson").write_text('{"at": 1769860800000}\n{"at": "2026-01-31T12:00:00Z"}\n')
    assert [row["at"] for row in file_rows(stream(several), tmp_path / "b.ndjson", ARRIVED)] == [noon, noon]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"delimiter": ";;"}, "delimiter is ';;'"),
        ({"delimiter": '"'}, "delimiter is"),
        ({"delimiter": ""}, "delimiter is"),
        ({"decimal": ","}, "give the delimiter too"),
        ({"decimal": "'", "delimiter": ";"}, "it is '.' or ','"),
        ({"encoding": "klingon"}, "encoding is 'klingon'"),
        ({"encoding": "zlib"}, "encoding is 'zlib'"),
        ({"zone": "Mars/Base"}, "zone is 'Mars/Base'"),
        ({"zone": "../etc/passwd"}, "zone is"),
    ],
)
def test_a_format_that_no_file_has_is_refused_when_it_is_declared(form, message):
    with pytest.raises(Misconfigured) as refused:
        FileFormat(**form)
    assert message in str(refused.value)


def test_two_units_of_one_column_and_a_format_that_is_none_are_refused(tmp_path):
    with pytest.raises(Misconfigured, match="name one unit"):
        stream(Source("at", time=("s", "ms")))
    with pytest.raises(Misconfigured, match="format is 'csv'"):
        Stream("sales", SCHEMA, "at", format="csv")  # pyright: ignore[reportArgumentType]


def test_a_header_between_other_signs_names_the_setting(tmp_path):
    (tmp_path / "a.csv").write_text("name;amount\nx;1\n")
    assert "FileFormat(delimiter=';')" in file_rows(stream(), tmp_path / "a.csv", ARRIVED)[0]["reason"]


def test_text_of_another_encoding_rejects_its_file(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"name,amount\n\xff\xff,1\n")
    (row,) = file_rows(stream(encoding="shift_jis"), tmp_path / "a.csv", ARRIVED)
    assert (row["line"], row["reason"][:28]) == (None, "the file is not shift_jis: '")


def test_ingest_warns_of_times_without_a_zone_and_its_zone_is_not_changed_later(tmp_path):
    schema = pa.schema([("name", pa.string()), ("at", TIMESTAMP)])
    landing, lakehouse = tmp_path / "landing", Lakehouse(tmp_path / "home")
    landing.mkdir()

    def run(name: str, text: str, **form: str) -> list[str]:
        (landing / name).write_text(text)
        return ingest(lakehouse, Stream("sales", schema, "at", format=FileFormat(**form)), landing).describe()

    assert run("a.csv", "name,at\nx,2026-01-31T12:00:00Z\n") == []
    (warning,) = run("b.csv", "name,at\nx,2026-01-31T12:00:00\ny,2026-01-31T12:00:00Z\nz,2026-01-31 12:00\n")
    assert warning.startswith("2 times without a zone, taken for UTC")
    assert "FileFormat(zone=" in warning
    assert run("c.csv", "name,at\nx,2026-01-31T12:00:00\n", zone="UTC") == []
    with pytest.raises(IncompatibleState, match="zone"):
        run("d.csv", "name,at\nx,2026-01-31T12:00:00\n", zone="Europe/Berlin")
