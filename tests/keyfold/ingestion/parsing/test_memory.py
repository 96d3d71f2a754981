"""A file of few bytes that unpacks to much is parsed, or rejected with a reason, in a process of 2 GB."""

import gzip
import os
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyfold.ingestion.parsing import UnreadableFileError, parquet, parse_file
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place
from keyfold.stream import Stream
from spark_jobs.streams import RIDE_POINTS

BARE = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
"""So that addresses are taken as memory is: Arrow's own pool reserves a gigabyte of them at once, and C's 64 MiB a thread."""

PARSE = """
import resource, sys
from datetime import UTC, datetime
from keyfold.ingestion.parsing import UnreadableFileError, parse_file
from keyfold.storage.place import to_place
from spark_jobs.streams import RIDE_POINTS
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
accepted, rejected, reasons = 0, 0, set()
try:
    for rows in parse_file(RIDE_POINTS, to_place(sys.argv[1]), datetime.now(UTC)):
        accepted += rows.accepted.height
        rejected += len(rows.rejects)
        reasons.update(one.reason for one in rows.rejects[:3])
except UnreadableFileError as error:
    reasons.add(f"whole: {error}")
print(accepted, rejected, *sorted(reasons)[:3], sep=chr(10))
"""


def parsed(path: Path) -> tuple[int, int, list[str]]:
    """How many rows a process of 2 GB accepts and rejects, and the first reasons."""
    command = [sys.executable, "-c", PARSE, path]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=BARE)
    assert ended.stderr == ""
    accepted, rejected, *reasons = ended.stdout.splitlines()
    return int(accepted), int(rejected), reasons


@pytest.mark.parametrize("name", ["a.ndjson.gz", pytest.param("a.csv.gz", marks=pytest.mark.slow)])
def test_hundreds_of_megabytes_of_line_ends_are_parsed_in_2_gb(tmp_path: DiskPath, name: str):
    with gzip.open(tmp_path / name, "wb", compresslevel=1) as file:
        file.write(b"ride_id,point_idx\n" if "csv" in name else b"{}\n")
        for _ in range(20):
            file.write(b"\n" * (10 << 20))
        file.write(b"r1,1\n" if "csv" in name else b"{}\n")
    accepted, rejected, _ = parsed(tmp_path / name)
    assert accepted + rejected == (1 if "csv" in name else 2)


def test_a_long_text_that_parquet_stores_once_is_rejected_in_2_gb(tmp_path: DiskPath):
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * (20 << 20)]))
    pq.write_table(pa.table({"note": texts}), tmp_path / "a.parquet", store_schema=False, write_statistics=False)
    reason = "whole: the file has a row of more than 16 MiB, which is its limit: row 1"
    assert parsed(tmp_path / "a.parquet") == (0, 0, [reason])


HOSTILE = {
    "carriage returns": (b"\r", b"\r"),
    "one line": (b"x", b'{"ride_id": "x'),
    "a quoted field that never ends": (b"x,\n", b'"x,\n'),
}
"""What a hostile file goes on with, of CSV and of JSON."""
HOSTILE_MIB = {"a quoted field that never ends": 1}
"""Of lines that each have a reason; of all else 200."""


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("carriage returns", "a.csv.gz"),
        ("a quoted field that never ends", "a.csv.gz"),
        pytest.param("one line", "a.csv.gz", marks=pytest.mark.slow),
        *(pytest.param(content, "a.ndjson.gz", marks=pytest.mark.slow) for content in HOSTILE),
    ],
)
def test_a_hostile_file_ends_in_quarantine_with_a_reason_in_2_gb(tmp_path: DiskPath, name: str, content: str):
    is_csv = "csv" in name
    of_csv, of_json = HOSTILE[content]
    part = of_csv if is_csv else of_json
    begin = {"one line": b"", "a quoted field that never ends": b'"'}.get(content, b"") if is_csv else b""
    with gzip.open(tmp_path / name, "wb", compresslevel=1) as file:
        file.write((b"ride_id,point_idx\n" if is_csv else b"") + begin)
        block = part * ((1 << 20) // len(part))
        for _ in range(HOSTILE_MIB.get(content, 200)):
            file.write(block)
    accepted, _, reasons = parsed(tmp_path / name)
    assert accepted == 0
    assert reasons


def reason_of(path: Path, stream: Stream) -> str:
    with pytest.raises(UnreadableFileError) as refused:
        for _ in parse_file(stream, to_place(path), datetime.now(UTC)):
            pass
    return str(refused.value)


def test_a_text_that_parquet_stores_once_counts_in_each_row_against_the_longest_file(tmp_path: DiskPath):
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000, pa.int32()), pa.array(["x" * 100_000]))
    pq.write_table(pa.table({"note": texts}), tmp_path / "a.parquet", store_schema=False, write_statistics=False)
    assert (tmp_path / "a.parquet").stat().st_size < 20_000
    path, limit = tmp_path / "a.parquet", 100_000_000
    assert (
        sum(rows.read for rows in parse_file(replace(RIDE_POINTS, max_file_bytes=limit), path, datetime.now(UTC)))
        == 1_000
    )
    reason = reason_of(path, replace(RIDE_POINTS, max_file_bytes=limit - 1))
    assert reason == "the file holds more than 95 MiB, which is its limit"


def asked_of_arrow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows Arrow is asked for at once, from now on."""
    asked, real = list[int](), pq.ParquetFile.iter_batches

    def noting(file: pq.ParquetFile, rows: int, **more: Any) -> Any:
        asked.append(rows)
        return real(file, rows, **more)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noting)
    return asked


@pytest.mark.parametrize("is_stored_once", [True, False])
def test_few_long_rows_of_parquet_are_held_at_once(tmp_path: DiskPath, is_stored_once: bool, monkeypatch):
    monkeypatch.setattr(parquet, "BATCH_BYTES", 10_000)
    texts = [f"{0 if is_stored_once else number:01000}" for number in range(1_000)]
    written = pa.table({"note": texts})
    pq.write_table(written, tmp_path / "a.parquet", use_dictionary=is_stored_once, compression="none")
    asked = asked_of_arrow(monkeypatch)
    parts = [rows.read for rows in parse_file(RIDE_POINTS, tmp_path / "a.parquet", datetime.now(UTC))]
    assert sum(parts) == 1_000
    assert 5 < max(parts) <= 10
    # A value that is stored once takes its room in each row only once the rows are cut into parts.
    assert asked[0] >= 1_000 if is_stored_once else asked[0] <= 10


@pytest.mark.parametrize("kind", [pa.binary(1_000), pa.int64(), pa.string()])
def test_rows_of_values_that_take_no_room_in_parquet_count_before_any_is_read(tmp_path: DiskPath, kind, monkeypatch):
    values = pa.nulls(1_000_000, kind)
    pq.write_table(pa.table({"note": values}), tmp_path / "a.parquet", write_statistics=False)
    assert (tmp_path / "a.parquet").stat().st_size < 10_000
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    reason = reason_of(tmp_path / "a.parquet", replace(RIDE_POINTS, max_file_bytes=900_000))
    assert reason == "the file holds more than 900,000 bytes, which is its limit"


@pytest.mark.parametrize("header", ["," * 10_000, "ride_id," * 1_000_000, '"a",' * 10_000])
def test_a_csv_header_of_very_many_columns_is_rejected_at_once(tmp_path: DiskPath, header: str):
    (tmp_path / "a.csv").write_text(f"{header}\n1,2\n")
    assert re.fullmatch(
        r"the CSV header has [\d,]+ columns, and at most 10,000 are read", reason_of(tmp_path / "a.csv", RIDE_POINTS)
    )


@pytest.mark.parametrize("rows", [1, 2])
def test_a_csv_file_without_a_header_is_rejected_with_all_its_rows(tmp_path: DiskPath, rows: int):
    (tmp_path / "a.csv").write_text("ride-1,1,40.7,-73.9\n" * rows)
    assert "the CSV header names no column of the stream" in reason_of(tmp_path / "a.csv", RIDE_POINTS)
