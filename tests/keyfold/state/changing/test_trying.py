"""A changed job, tried beside the live one; late events, read again in their place."""

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.state.changing.trying import redrive
from keyfold.state.differences import comparing
from keyfold.state.differences.comparing import compare_tables
from tests.keyfold.keyed.toy_jobs import CLICK, clicks, windows


def table_of(folder, *events):
    create_table(folder, CLICK)
    if events:
        append_files(folder, [write_data_file(clicks(*events), folder, CLICK)], "test", 0)
    return folder


@pytest.mark.parametrize("bytes_a_pass", [1 << 20, 500])
def test_tables_are_compared_row_by_row_however_often_a_row_is_there(tmp_path, monkeypatch, bytes_a_pass):
    monkeypatch.setattr(comparing, "_BYTES_A_PASS", bytes_a_pass)
    before = table_of(tmp_path / "a", ("ann", 1), ("ann", 1), ("bob", 2), ("cat", 3))
    after = table_of(tmp_path / "b", ("ann", 1), ("bob", 5), ("cat", 3), ("dan", 4))
    found = compare_tables("clicks", before, after, ("user",))
    assert (found.rows_before, found.rows_after, found.same) == (4, 4, 2)
    assert (found.added, found.removed, found.changed, found.changed_columns) == (1, 1, 1, {"at": 1})
    told = found.samples.select("difference", "user").rows()
    assert told == [("changed, old", "bob"), ("changed, new", "bob"), ("removed", "ann"), ("added", "dan")]
    assert compare_tables("clicks", before, before, ("user",)).is_none
    nothing = compare_tables("clicks", tmp_path / "none", after, ("user",))
    assert (nothing.added, nothing.removed, nothing.rows_before) == (4, 0, 0)


def test_where_no_event_was_late_there_is_nothing_to_redrive(spark, lakehouse, land, minutes):
    land(("ann", 1), ("bob", 25))
    run_job(lakehouse, windows(), runners=spark)
    with pytest.raises(KeyfoldError, match="no event was late"):
        redrive(spark, lakehouse, windows())
    land(("ann", 2), ("eve", 3))
    run_job(lakehouse, windows(), runners=spark)
    with pytest.raises(KeyfoldError, match="no event was late since 2026-01-01 00:10"):
        redrive(spark, lakehouse, windows(), since=minutes(10))
