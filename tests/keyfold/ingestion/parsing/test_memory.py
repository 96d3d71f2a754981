"""A file of few bytes that unpacks to much is parsed, or rejected with a reason, in a process of 2 GB."""

import gzip
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PARSE = """
import resource, sys
from datetime import UTC, datetime
from pathlib import Path
from keyfold.ingestion.parsing import parse_file
from spark_jobs.streams import RIDE_POINTS
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
print(sum(rows.read for rows in parse_file(RIDE_POINTS, Path(sys.argv[1]), datetime.now(UTC))))
"""


@pytest.mark.parametrize("name", ["a.ndjson.gz", "a.csv.gz"])
def test_hundreds_of_megabytes_of_line_ends_are_parsed_in_2_gb(tmp_path: Path, name: str):
    with gzip.open(tmp_path / name, "wb", compresslevel=1) as file:
        file.write(b"ride_id,point_idx\n" if "csv" in name else b"{}\n")
        for _ in range(10):
            file.write(b"\n" * (10 << 20))
        file.write(b"r1,1\n" if "csv" in name else b"{}\n")
    ended = subprocess.run([sys.executable, "-c", PARSE, tmp_path / name], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("1\n" if "csv" in name else "2\n", "")


@pytest.mark.parametrize(("size", "told"), [(100_000, "20000\n"), (20 << 20, "")])
def test_a_long_text_that_parquet_stores_once_is_parsed_in_2_gb(tmp_path: Path, size: int, told: str):
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * size]))
    pq.write_table(pa.table({"note": texts}), tmp_path / "a.parquet", store_schema=False, write_statistics=False)
    command = [sys.executable, "-c", PARSE, tmp_path / "a.parquet"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout == told
    if not told:
        reason = "UnreadableFileError: the file has a row of more than 16 MiB, which is its limit: row 1"
        assert ended.stderr.splitlines()[-1].endswith(reason)
