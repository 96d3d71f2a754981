"""What a file's name says of it."""

import gzip
from pathlib import Path

import pytest

from keyfold.ingestion.formats import FileType, file_type, open_text


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a/points.ndjson", FileType("json", False, "points")),
        ("points.jsonl.gz", FileType("json", True, "points")),
        ("POINTS.JSON.GZ", FileType("json", True, "POINTS")),
        ("cpu.v2.csv", FileType("csv", False, "cpu.v2")),
        ("day.parquet", FileType("parquet", False, "day")),
        ("day.parquet.gz", FileType(None, True, "day.parquet")),
        ("notes.txt", FileType(None, False, "notes.txt")),
        ("notes.gz", FileType(None, True, "notes")),
        ("notes", FileType(None, False, "notes")),
    ],
)
def test_endings_tell_format_and_compression(name, told):
    assert file_type(Path(name)) == told


@pytest.mark.parametrize(("name", "pack"), [("a.csv", bytes), ("a.csv.gz", gzip.compress)])
def test_text_is_read_as_its_name_says(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(b"x\n1\n"))
    with open_text(tmp_path / name) as source:
        assert source.read() == b"x\n1\n"
