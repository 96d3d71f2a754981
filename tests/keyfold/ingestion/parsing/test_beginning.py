"""A file that is bad in nearly all of its first rows is rejected as a whole, however it is cut; all others keep each of their rows."""

import gzip
import json
import resource
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.ingestion import ingest_totals
from keyfold.ingestion.parsing import UnreadableFileError, beginning, parse_file, text
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import scan_table
from keyfold.runners import Runners
from keyfold.runs import ingest
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place
from keyfold.stream import Source, Stream
from tests.examples import examples
from tests.landings import local_runners
from tests.schemas import schema_of

NOW = datetime(2026, 1, 31, tzinfo=UTC)
STREAM = Stream("visits", schema_of("user string!, n int64, at time!"), "at", max_age=timedelta(days=30))
GOOD, OLD, FUTURE = "2026-01-30T00:00:00Z", "2020-01-01T00:00:00Z", "2027-01-01T00:00:00Z"
ROWS = {
    "good": {"user": "ann", "n": 1, "at": GOOD},
    "too old": {"user": "ann", "n": 1, "at": OLD},
    "in the future": {"user": "ann", "n": 1, "at": FUTURE},
    "no user": {"n": 1, "at": GOOD},
    "no number": {"user": "ann", "n": 1.5, "at": GOOD},
    "nothing": None,
}
FIT = ("good", "too old", "in the future")


def lines_of(form: str, kinds: list[str]) -> bytes:
    """A file of JSON lines or CSV, with a row of each kind; of `nothing` a line that is no row of its format."""
    if form == "json":
        return b"".join((json.dumps(ROWS[kind]) if ROWS[kind] else "x").encode() + b"\n" for kind in kinds)
    rows = [f"{row.get('user', '')},{row['n']},{row['at']}" if (row := ROWS[kind]) else "x,y" for kind in kinds]
    return "\n".join(["user,n,at", *rows, ""]).encode()


def read(path: Path, oldest: datetime | None = None, stream: Stream = STREAM) -> tuple[int, int] | str:
    """How many rows of a file are accepted and refused, or the reason why it is rejected as a whole."""
    try:
        parts = list(parse_file(stream, to_place(path), NOW, oldest=oldest))
    except UnreadableFileError as error:
        return str(error)
    return sum(part.accepted.height for part in parts), sum(len(part.rejects) for part in parts)


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    form=st.sampled_from(["json", "csv"]),
    runs=st.lists(st.tuples(st.sampled_from(list(ROWS)), st.integers(1, 60)), min_size=1, max_size=6),
    first=st.integers(1, 60),
    one_in=st.sampled_from([2, 10, 100]),
    at_once=st.integers(1, 40),
    first_lines=st.integers(1, 70),
    block=st.integers(120, 2_000),
)
def test_the_answer_is_that_of_the_first_rows_however_the_file_is_cut(
    tmp_path, form, runs, first, one_in, at_once, first_lines, block
):
    kinds = [kind for kind, count in runs for _ in range(count)]
    path = tmp_path / f"a.{form}"
    path.write_bytes(lines_of(form, kinds))
    fit = sum(kind in FIT for kind in kinds[:first])
    whole, cut = text.chunks, (at_once, first_lines)
    with (
        patch.multiple(beginning, FIRST_ROWS=first, ONE_IN=one_in),
        patch.multiple(
            text, CHUNK_LINES=cut[0], FIRST_LINES=cut[1], chunks=lambda source, **limits: whole(source, block, **limits)
        ),
    ):
        for oldest in (None, NOW - timedelta(days=30)):
            found = read(path, oldest)
            if len(kinds) >= first and fit * one_in < first:
                assert str(found).startswith(
                    f"the file is rejected as a whole: {first - fit:,} of its first {first:,} rows"
                )
            else:
                accepted = sum(kind == "good" or (kind == "too old" and oldest is None) for kind in kinds)
                assert found == (accepted, len(kinds) - accepted)


def test_elements_of_a_list_count_as_rows_and_those_of_a_line_belong_together(tmp_path):
    stream = Stream("parts", schema_of("n int64!"), "ingested_at", sources={"n": Source("all[].n")})
    path = tmp_path / "a.json"
    with patch.multiple(beginning, FIRST_ROWS=10):
        for elements, expected in (
            (
                ["x"] * 7,
                "the file is rejected as a whole: 14 of its first 14 rows are refused, most often: n is not an integer of 64 bits",
            ),
            (["x"] * 6 + [1], (2, 12)),
        ):
            path.write_text((json.dumps({"all": [{"n": one} for one in elements]}) + "\n") * 2)
            assert read(path, stream=stream) == expected


def parquet(path: Path, rows: int) -> None:
    pq.write_table(pa.table({"user": ["ann"] * rows, "n": ["x"] * rows, "at": [GOOD] * rows}), path)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "lines.json.gz": lambda path: path.write_bytes(gzip.compress(b"x\n" * 2_000_000)),
    "objects.json.gz": lambda path: path.write_bytes(gzip.compress(b'{"user":"ann","n":"x"}\n' * 1_000_000)),
    "lists.json.gz": lambda path: path.write_bytes(gzip.compress(b"[1]\n" * 2_000_000)),
    "rows.csv.gz": lambda path: path.write_bytes(gzip.compress(b"user,n,at\n" + b"x\n" * 2_000_000)),
    "quotes.csv.gz": lambda path: path.write_bytes(gzip.compress(b"user,n,at\n" + b'"\n' * 200_000)),
    "commas.csv.gz": lambda path: path.write_bytes(gzip.compress(b"user,n,at\n" + b",,\n" * 2_000_000)),
    "rows.parquet": lambda path: parquet(path, 1_000_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_small_file_of_millions_of_bad_lines_is_one_row_of_quarantine_in_seconds(
    lakehouse: Lakehouse, landing: DiskPath, name: str
):
    HOSTILE[name](landing / name)
    (landing / "good.json").write_bytes(lines_of("json", ["good"] * 3))
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    summary = ingest(lakehouse, STREAM, landing, runners=local_runners(1))
    assert time.process_time() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000
    assert (summary.files, summary.rows_read, summary.accepted, summary.quarantined) == (2, 4, 3, 1)
    (row,) = scan_table(lakehouse.quarantine("visits")).collect().to_dicts()
    assert row["file"].endswith(name)
    assert row["line"] is None
    assert row["reason"].startswith("the file is rejected as a whole: ")
    assert 0 < len(row["raw"].split("\n")) < 10
    assert ingest_totals(lakehouse, STREAM).rows_read == 4


def test_it_is_so_on_spark(spark: Runners, lakehouse: Lakehouse, landing: DiskPath):
    HOSTILE["lines.json.gz"](landing / "lines.json.gz")
    (landing / "good.json").write_bytes(lines_of("json", ["good"] * 3))
    summary = ingest(lakehouse, STREAM, landing, runners=spark)
    assert (summary.rows_read, summary.accepted, summary.quarantined) == (4, 3, 1)


def endings() -> Iterator[tuple[str, list[str], int]]:
    yield "a shorter file", ["nothing"] * 9_999, 0
    yield "many bad lines after a good beginning", ["good"] * 100 + ["nothing"] * 19_900, 100
    yield "one good row in a hundred", (["nothing"] * 99 + ["good"]) * 200, 200
    yield "a header that came as a row", ["nothing"] + ["good"] * 10_500, 10_500


@pytest.mark.parametrize(("kinds", "good"), [one[1:] for one in endings()], ids=[one[0] for one in endings()])
def test_a_real_file_with_bad_lines_keeps_each_of_its_rows(
    lakehouse: Lakehouse, landing: DiskPath, kinds: list[str], good: int
):
    (landing / "a.json").write_bytes(lines_of("json", kinds))
    summary = ingest(lakehouse, STREAM, landing, runners=local_runners(1))
    assert (summary.rows_read, summary.accepted, summary.quarantined) == (len(kinds), good, len(kinds) - good)


def test_a_file_of_an_archive_is_not_judged_by_its_age(lakehouse: Lakehouse, landing: DiskPath):
    (landing / "a.json").write_bytes(lines_of("json", ["good"]))
    ingest(lakehouse, STREAM, landing, runners=local_runners(1))
    (landing / "b.json").write_bytes(lines_of("json", ["too old"] * 12_000))
    assert ingest(lakehouse, STREAM, landing, runners=local_runners(1)).quarantined == 12_000
