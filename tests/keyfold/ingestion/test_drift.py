"""Files that may do harm are named by `keyfold drift`, and ingest accounts for each: neither ends in a traceback, and neither takes long."""

import gzip
import json
import random
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyfold.ingestion.drift import find_drift
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import scan_table
from keyfold.runs import ingest
from keyfold.storage.disk_path import DiskPath
from spark_jobs.streams import METRICS
from tests.landings import local_runners, metric

LINE = json.dumps(metric(1)).encode() + b"\n"
ZIPPED = gzip.compress(LINE * 1_000)


def parquet(rows: int = 3) -> bytes:
    content = pa.BufferOutputStream()
    pq.write_table(pa.table({"key": ["a"] * rows, "other": [1] * rows}), content)
    return content.getvalue().to_pybytes()


FAULTY: dict[str, bytes] = {
    "cut.json.gz": ZIPPED[:30],
    "flipped.json.gz": ZIPPED[:20] + b"\xff" + ZIPPED[21:],
    "no_gzip.csv.gz": b"timestamp,value\n",
    "header_cut.csv.gz": gzip.compress(b"timestamp,value\n" * 999)[:15],
    "no_utf8.csv": b"timestamp,\xff\xfe\n",
    "wide.csv": b",".join(b"c%d" % at for at in range(20_000)) + b"\n",
    "open_quote.csv": b'timestamp,"value',
    "no_footer.parquet": parquet()[:-9],
    "no_parquet.parquet": b"PAR1" + b"\xff" * 100 + b"PAR1",
    "unknown.xlsx": b"x",
}
HARMLESS: dict[str, bytes] = {
    "empty.json": b"",
    "empty.csv": b"",
    "empty.parquet": b"",
    "deep.json": b"[" * 100_000,
    "deep_object.json": b'{"a":' * 100_000,
    "long_number.json": b'{"value": ' + b"9" * 900_000 + b"}\n",
    "one_long_line.json": b'{"value": "' + b"a" * 3_000_000,
    "no_utf8.json": b'{"value": "\xff"}\n',
    "half_a_pair.json": b'{"value": "\\ud800", "\\ud800": 1}\n',
    "twice.json": b'{"value": 1, "value": 2}\n',
    "binary.json": bytes(range(256)) * 100,
    "bomb.json.gz": gzip.compress(b"x" * 50_000_000),
    "lines.json.gz": gzip.compress(b"x\n" * 500_000),
}


def put(folder: DiskPath, files: dict[str, bytes]) -> list[DiskPath]:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


def test_each_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: DiskPath):
    found = find_drift(METRICS, put(tmp_path, FAULTY))
    assert {file.name for file in found.unreadable} == set(FAULTY) - {"open_quote.csv"}
    assert all(reason.startswith("the ") for reason in found.unreadable.values()), found.unreadable


def test_what_can_be_read_is_not_called_unreadable(tmp_path: DiskPath):
    assert find_drift(METRICS, put(tmp_path, HARMLESS)).unreadable == {}


def test_ingest_accounts_for_each_of_them(tmp_path: DiskPath, lakehouse: Lakehouse):
    put(tmp_path / "landing", FAULTY | HARMLESS)
    began = time.monotonic()
    summary = ingest(lakehouse, METRICS, tmp_path / "landing", runners=local_runners(1))
    assert time.monotonic() - began < 60
    assert summary.files == len(FAULTY | HARMLESS)
    assert summary.rows_read == summary.accepted + summary.quarantined + summary.duplicates < 1_000
    refused = scan_table(lakehouse.quarantine("metrics")).collect()
    assert refused.height == summary.quarantined
    assert {Path(file).name for file in refused["file"]} >= set(FAULTY)


@pytest.mark.parametrize(("ending", "content"), [("json.gz", ZIPPED), ("csv.gz", ZIPPED), ("parquet", parquet(500))])
def test_files_in_which_bits_have_flipped_end_no_command(tmp_path: DiskPath, ending: str, content: bytes):
    seeded, files = random.Random(), dict[str, bytes]()
    for number in range(100):
        flipped = bytearray(content)
        for _ in range(seeded.randrange(1, 9)):
            flipped[seeded.randrange(len(flipped))] ^= 1 << seeded.randrange(8)
        files[f"{number}.{ending}"] = bytes(
            flipped[: seeded.randrange(1, len(flipped))] if number % 4 == 0 else flipped
        )
    began = time.monotonic()
    found = find_drift(METRICS, put(tmp_path, files))
    assert len(found.unreadable) > 15
    assert time.monotonic() - began < 120
