"""A changed job, tried beside the live one; late events, read again in their place."""

import polars as pl
import pytest

from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.state import differences
from keyfold.state.differences import diff_tables
from tests.shop import CLICK, clicks


def table_of(folder, *events):
    create_table(folder, CLICK)
    if events:
        append_files(folder, [write_data_file(clicks(*events), folder, CLICK)], "test", 0)
    return folder


@pytest.mark.parametrize("bytes_a_pass", [1 << 20, 500])
def test_tables_are_compared_key_by_key_however_often_a_row_is_there(tmp_path, monkeypatch, bytes_a_pass):
    monkeypatch.setattr(differences, "_BYTES_A_PASS", bytes_a_pass)
    before = table_of(tmp_path / "a", ("ann", 1), ("ann", 1), ("bob", 2), ("cat", 3), ("eve", 6))
    after = table_of(tmp_path / "b", ("ann", 1), ("bob", 5), ("cat", 3), ("dan", 4))
    found = diff_tables(before, after, ("user",))
    told = found.summary()
    assert (told.added, told.removed) == (1, 1)
    assert (told.changed, told.columns, told.is_equal) == (2, {"at": 2, "clicks": 1}, False)
    rows = found.first_rows(9).select("user", "change", pl.col("before", "after").list.len()).rows()
    assert rows == [
        ("ann", "changed", 2, 1),
        ("bob", "changed", 1, 1),
        ("dan", "added", None, 1),
        ("eve", "removed", 1, None),
    ]
    assert diff_tables(before, before, ("user",)).summary().is_equal
    # A table that only one has is empty; without a key, rows are compared as such.
    nothing = diff_tables(tmp_path / "none", after, ("user",)).summary()
    assert (nothing.added, nothing.removed) == (4, 0)
    rows = diff_tables(before, after, ("none",)).summary()
    assert (rows.added, rows.removed, rows.changed) == (2, 2, 1)
    assert diff_tables(tmp_path / "none", tmp_path / "none", ("user",)).summary().is_equal
    # A column of another type is not compared.
    pl.read_delta(str(after)).with_columns(pl.col("clicks").cast(pl.String)).write_delta(str(tmp_path / "texts"))
    texts = diff_tables(after, tmp_path / "texts", ("user",)).summary()
    assert (texts.is_equal, texts.not_compared) == (True, ("clicks",))
