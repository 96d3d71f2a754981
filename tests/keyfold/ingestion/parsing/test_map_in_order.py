"""A file is read alike by one thread and by several, which read no more of it ahead than they must."""

import threading
from datetime import UTC, datetime

import pytest

from keyfold.ingestion.parsing import parse_file, text
from keyfold.ingestion.parsing.map_in_order import map_in_order
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


def test_results_keep_the_order_of_items_that_are_worked_on_at_the_same_time():
    both = threading.Barrier(2)

    def wait(number: int) -> int:
        if number in {1, 2}:
            both.wait(timeout=10)
        return number * number

    assert list(map_in_order(wait, range(6), threads=2)) == [0, 1, 4, 9, 16, 25]


def test_an_error_comes_in_place_of_its_result_and_little_is_taken_ahead_of_it():
    taken: list[int] = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    results = map_in_order(lambda number: 12 // (3 - number), items(), threads=2)
    assert next(results) == 4
    assert taken == [0], "the first item ends the work before others are taken"
    assert [next(results), next(results)] == [6, 12]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert len(taken) <= 3 + 3
