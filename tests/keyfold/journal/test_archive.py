"""The archive of a journal: it has a row of each batch, whatever is added in whatever pieces, and few files."""

import random

import pytest

from keyfold.errors import Damaged
from keyfold.journal import archive as module
from keyfold.journal.archive import add_to_archive, read_archive
from keyfold.storage.place import Place


def add(folder: Place, first: int, last: int, mark: str = "") -> None:
    add_to_archive(folder, [{"batch": batch, "mark": mark or str(batch)} for batch in range(first, last + 1)])


@pytest.mark.parametrize("seed", range(5))
def test_it_has_the_row_of_each_batch_once(tmp_path, seed):
    chance, last, expected = random.Random(seed), -1, {}
    for _ in range(60):
        # A crash before the records were removed has batches written again.
        first = max(0, last + 1 - chance.choice([0, 0, 0, 5]))
        last = first + chance.choice([9, 9, 99, 4])
        add(tmp_path, first, last)
        expected |= {batch: str(batch) for batch in range(first, last + 1)}
    rows = read_archive(tmp_path)
    assert dict(rows.select("batch", "mark").iter_rows()) == expected
    assert rows["batch"].to_list() == sorted(expected)


def test_a_million_batches_have_few_files(tmp_path):
    for first in range(0, 25_000, 100):
        add(tmp_path, first, first + 99, "same")
    assert len(list(tmp_path.iterdir())) <= 3 * module._JOINED
    assert read_archive(tmp_path)["batch"].to_list() == list(range(25_000))


def test_files_that_a_crash_left_beside_the_one_that_has_their_rows_count_no_more(tmp_path):
    for first in range(0, 90, 10):
        add(tmp_path, first, first + 9)
    left = {file: file.read_bytes() for file in tmp_path.iterdir()}
    add(tmp_path, 90, 99)
    for file, content in left.items():
        file.write_bytes(content)
    assert read_archive(tmp_path)["batch"].to_list() == list(range(100))
    add(tmp_path, 100, 109)
    assert read_archive(tmp_path)["batch"].to_list() == list(range(110))


def test_columns_that_come_later_are_null_before(tmp_path):
    add_to_archive(tmp_path, [{"batch": 0}])
    add_to_archive(tmp_path, [{"batch": 1, "mark": "new"}])
    assert read_archive(tmp_path).rows() == [(0, None), (1, "new")]


def test_a_damaged_file_is_named_with_what_to_do(tmp_path):
    add(tmp_path, 0, 9)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"torn")
    with pytest.raises(Damaged, match="remove it: then only the clocks of old batches are lost"):
        read_archive(tmp_path)
    # A run that adds to it goes on.
    for first in range(10, 120, 10):
        add(tmp_path, first, first + 9)
    file.unlink()
    assert read_archive(tmp_path)["batch"].to_list() == list(range(10, 120))


def test_there_is_nothing_before_the_first_batch(tmp_path):
    assert read_archive(tmp_path / "none").is_empty()
