"""An entry of a table's log that is empty is found, and told to who would read the table short of it."""

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake

from keyfold.errors import KeyfoldError
from keyfold.lakehouse.log_changes import changes_since, next_change, snapshot
from keyfold.lakehouse.positions import position_at
from keyfold.lakehouse.presence import empty_entries, take_back


@pytest.fixture
def table(tmp_path):
    """A table of four commits."""
    for number in range(4):
        write_deltalake(str(tmp_path / "table"), pl.DataFrame({"at": [number]}), mode="append")
    return tmp_path / "table"


def entry(table, version):
    return table / "_delta_log" / f"{version:020d}.json"


def test_a_table_as_it_is_written_has_none(table):
    assert empty_entries(table, 3) == []


def test_all_are_found_in_order_where_delta_itself_reads_on(table):
    for version in (3, 1):
        entry(table, version).write_bytes(b"")
    assert empty_entries(table, 3) == [1, 3]
    assert empty_entries(table, 2) == [1]
    assert DeltaTable(str(table)).count() == 2


def test_those_that_a_checkpoint_holds_do_not_count(table):
    DeltaTable(str(table)).create_checkpoint()
    write_deltalake(str(table), pl.DataFrame({"at": [4]}), mode="append")
    for version in (1, 3, 4):
        entry(table, version).write_bytes(b"")
    assert empty_entries(table, 4) == [4]
    assert DeltaTable(str(table)).count() == 4


def test_where_nothing_says_which_checkpoint_is_the_newest_all_that_is_there_is_looked_at(table):
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / "_last_checkpoint").write_bytes(b"")
    entry(table, 0).unlink()
    entry(table, 2).write_bytes(b"")
    assert empty_entries(table, 3) == [2]


def test_who_reads_the_table_or_what_came_to_it_is_told(table):
    entry(table, 2).write_bytes(b"")
    for read in (
        lambda: snapshot(table, "at"),
        lambda: changes_since(table, position_at(table, 1), "at"),
        lambda: next_change(table, position_at(table, 1)),
    ):
        with pytest.raises(KeyfoldError, match=r"table is damaged: entry 2 is empty.*restore it"):
            read()


def test_the_last_one_is_taken_back(table):
    entry(table, 3).write_bytes(b"")
    take_back(table, 3)
    assert empty_entries(table, 2) == []
    assert DeltaTable(str(table)).version() == 2
