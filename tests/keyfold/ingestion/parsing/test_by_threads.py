"""A file is read alike by one thread and by several, which read no more of it ahead than they must."""

from datetime import UTC, datetime

import pytest

from keyfold.ingestion.parsing import formats, parse_file, text
from keyfold.stream import Source, Stream
from tests.keyfold.ingestion.parsing.reading import as_rows
from tests.schemas import schema_of

ARRIVED = datetime(2026, 1, 1, tzinfo=UTC)
TIME = '"2025-12-01T00:00:00Z"'
STREAM = Stream(name="flat", schema=schema_of("whole int64, time time"), event_time="time")
NESTED = Stream(
    name="nested",
    schema=schema_of("whole int64, time time"),
    event_time="time",
    sources={"whole": Source("readings[].whole")},
)
FILES = {
    "flat.ndjson": (STREAM, [f'{{"whole": {"x" * (at % 3 == 1)}{at}, "time": {TIME}}}' for at in range(100)]),
    "nested.ndjson": (
        NESTED,
        [f'{{"readings": [{{"whole": {at}}}, {{"whole": {at}.5}}], "time": {TIME}}}' for at in range(100)],
    ),
    "flat.csv": (
        STREAM,
        ["time,whole", *(f'2025-12-01T00:00:00Z,"{at}{chr(10) * (at % 5 == 1)}"' for at in range(100))],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_alike_by_one_thread_and_by_several(tmp_path, monkeypatch, name):
    monkeypatch.setattr(text, "FIRST_LINES", 5)
    monkeypatch.setattr(text, "CHUNK_LINES", 7)
    stream, lines = FILES[name]
    (tmp_path / name).write_text("\n".join(lines))
    by_threads = [
        [row for part in parse_file(stream, tmp_path / name, ARRIVED, threads=threads) for row in as_rows(stream, part)]
        for threads in (1, 3)
    ]
    assert by_threads[0] == by_threads[1]
    assert len(by_threads[0]) >= 100


def test_the_first_chunk_ends_the_work_before_others_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "FIRST_LINES", 5)
    monkeypatch.setattr(text, "CHUNK_LINES", 7)
    stream, lines = FILES["flat.ndjson"]
    (tmp_path / "flat.ndjson").write_text("\n".join(lines))
    chunks = formats._read
    taken: list[int] = []

    def counted(*arguments):
        for number, chunk in enumerate(chunks(*arguments)):
            taken.append(number)
            yield chunk

    monkeypatch.setattr(formats, "_read", counted)
    parts = parse_file(stream, tmp_path / "flat.ndjson", ARRIVED, threads=3)
    next(parts)
    assert taken == [0]
    list(parts)
    assert len(taken) > 10
