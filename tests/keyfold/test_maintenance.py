"""Maintenance of tables: what is joined, what is deleted, and what a reader that lags behind still finds."""

import time
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.lakehouse import commits
from keyfold.lakehouse.commits import replace_files
from keyfold.lakehouse.data_files import STAGED, WrittenFile, is_own_file, write_data_file
from keyfold.lakehouse.log_changes import changes_since, snapshot
from keyfold.lakehouse.paths import create_table
from keyfold.lakehouse.positions import position_at
from keyfold.lakehouse.reading import data_file_paths
from keyfold.storage.disk_path import DiskPath
from tests.keyfold.aged_table import DAY, append, care, grow_old, table, touch
from tests.shop import CLICK, clicks

__all__ = ["table"]


def data_files(table: Path) -> int:
    return len(list(table.glob("*.parquet")))


def rows(table: Path) -> list[int]:
    return sorted(pl.read_delta(str(table))["at"].dt.minute().to_list())


def test_small_files_are_joined_and_kept_for_the_retention(lakehouse, table):
    append(table, 1, 2, 3)
    done = care(lakehouse, table)
    assert (done.files_before, done.files_after, done.deleted) == (3, 1, 0)
    assert (data_files(table), rows(table)) == (4, [1, 2, 3])
    assert done.not_deleted is done.kept_for is None
    grow_old(table, days=6)
    assert care(lakehouse, table).deleted == 0
    grow_old(table, days=2)
    version = DeltaTable(str(table)).version()
    later = care(lakehouse, table)
    assert (later.deleted, data_files(table), rows(table)) == (3, 1, [1, 2, 3])
    # Nothing was left to join, so that nothing was committed; and what was written exactly once is still known.
    assert DeltaTable(str(table)).version() == version
    assert DeltaTable(str(table)).transaction_version("ingest") == 3


@pytest.mark.parametrize("time", ["at", None])
def test_a_joined_file_is_named_as_batches_name_theirs_and_who_reads_additions_passes_over_it(lakehouse, table, time):
    append(table, 1, 2, 3)
    position = position_at(table, 1)
    care(lakehouse, table, time=time)
    (joined,) = data_file_paths(table)
    assert is_own_file(joined.name)
    assert [file.rows for file in changes_since(table, position, "at").files] == [1]


def test_joining_without_a_time_leaves_large_files_and_columns_of_any_kind_as_they_are(lakehouse, table):
    frames = [
        pl.DataFrame(
            {
                "name": [None, f"n{number}"],
                "amount": pl.Series([None, number], dtype=pl.Decimal(38, 9)),
                "day": pl.Series([None, date(2026, 1, 1 + number)], dtype=pl.Date),
                "models": [None, ["a", None, str(number)]],
                "inner": [None, {"of": [float(number)], "raw": bytes([number])}],
            }
        )
        for number in range(4)
    ]
    for frame in [*frames, pl.concat([frames[0]] * 40_000)]:
        frame.write_delta(str(table), mode="append")
    DeltaTable(str(table)).alter.set_table_properties({"delta.targetFileSize": str(30 << 10)})
    later = pl.concat([frames[1].with_columns(late=pl.lit(1))])
    later.write_delta(str(table), mode="append", delta_write_options={"schema_mode": "merge"})
    large = max(data_file_paths(table), key=lambda path: path.stat().st_size)
    before = pl.read_delta(str(table))
    assert care(lakehouse, table, time=None).files_after == 2
    assert large in data_file_paths(table)
    after = pl.read_delta(str(table))
    assert after.schema == before.schema
    assert sorted(map(str, after.rows())) == sorted(map(str, before.rows()))
    version = DeltaTable(str(table)).version()
    care(lakehouse, table, time=None)
    assert DeltaTable(str(table)).version() == version


@pytest.fixture
def meanwhile(table, monkeypatch):
    """Have something done between the next look of a commit at the table and that commit."""

    def between(do: Callable[[], None]) -> None:
        looks = iter([DeltaTable(str(table))])
        do()
        monkeypatch.setattr(commits, "DeltaTable", lambda path: next(looks, None) or DeltaTable(path))

    return between


def test_of_two_that_join_the_same_files_at_once_one_fails(lakehouse, table, meanwhile):
    append(table, 1, 2, 3)
    files = snapshot(table, "at").files
    twice = [write_data_file(pl.read_delta(str(table)), table, CLICK) for _ in range(2)]
    meanwhile(lambda: replace_files(table, files, twice[:1]))
    append(table, 4)
    with pytest.raises(KeyfoldError, match="another process has replaced some of its files"):
        replace_files(table, files, twice[1:])
    assert rows(table) == [1, 2, 3, 4]


def test_joining_goes_together_with_an_append_meanwhile_and_its_own_log_entry_is_made_durable(
    lakehouse, table, meanwhile, monkeypatch
):
    append(table, 1, 2)
    joined = write_data_file(pl.read_delta(str(table)), table, CLICK)
    files = snapshot(table, "at").files
    synced = []
    sync_file = DiskPath.sync_file
    monkeypatch.setattr(DiskPath, "sync_file", lambda path: (sync_file(path), synced.append(int(path.stem))))
    meanwhile(lambda: append(table, 3))
    replace_files(table, files, [joined])
    assert (rows(table), synced) == ([1, 2, 3], [3])


def test_files_that_lie_across_each_other_follow_one_another_afterwards_and_jobs_see_nothing_new(lakehouse, table):
    create_table(table, CLICK)
    DeltaTable(str(table)).alter.set_table_properties({"delta.targetFileSize": str(512 << 10)})
    users = [f"{number * 7919 % 100_003:032x}" for number in range(60_000)]
    for number in range(4):
        # Each file spans the whole day; no two have a click at one time.
        minutes = [(number + 4 * at) * 1440 / 240_000 for at in range(60_000)]
        clicks(*zip(users, minutes, strict=True)).write_delta(str(table), mode="append")
    before = pl.read_delta(str(table)).sort("at")
    position = position_at(table, DeltaTable(str(table)).version())
    assert care(lakehouse, table).files_after > 1
    files = sorted(snapshot(table, "at").files, key=lambda file: file.first or 0)
    assert all((one.last or 0) <= (following.first or 0) for one, following in pairwise(files))
    for file in files:
        assert pl.read_parquet(table / file.path)["at"].is_sorted()
    assert pl.read_delta(str(table)).sort("at").equals(before)
    assert changes_since(table, position, "at").files == ()
    care(lakehouse, table)  # in order, the same rows take less room: some are joined once more
    again = DeltaTable(str(table)).version()
    care(lakehouse, table)
    assert DeltaTable(str(table)).version() == again


def test_a_column_that_a_table_got_later_is_null_in_its_older_rows(lakehouse, table):
    append(table, 1)
    later = clicks(("bob", 2)).with_columns(place=pl.lit("Oslo"))
    later.write_delta(str(table), mode="append", delta_write_options={"schema_mode": "merge"})
    assert care(lakehouse, table).files_after == 1
    assert pl.read_delta(str(table)).sort("at")["place"].to_list() == [None, "Oslo"]


def test_files_are_never_replaced_by_fewer_rows(lakehouse, table):
    append(table, 1, 2, 3)
    files = snapshot(table, "at").files
    fewer = write_data_file(pl.read_delta(str(table)).head(2), table, CLICK)
    with pytest.raises(KeyfoldError, match="made 2 rows of 3"):
        replace_files(table, files, [fewer])
    assert rows(table) == [1, 2, 3]


def test_files_of_a_killed_write_are_deleted_when_they_are_old_and_not_before(lakehouse, table):
    append(table, 1)
    orphan = table / "part-killed.parquet"
    orphan.write_bytes(b"half")
    assert care(lakehouse, table).deleted == 0
    touch(orphan, time.time() - 8 * DAY)
    assert care(lakehouse, table).deleted == 1


def test_files_newer_than_the_last_batch_may_be_of_one_at_work_and_are_kept_however_old_a_wrong_clock_says(
    lakehouse, table
):
    append(table, 1)
    (last,) = table.glob("*.parquet")
    for name, days in (("part-at-work.parquet", 70), ("part-killed.parquet", 90)):
        (table / name).write_bytes(b"half")
        touch(table / name, time.time() - days * DAY)
    touch(last, time.time() - 80 * DAY)
    done = WrittenFile(path=last.name, rows=1, bytes=last.stat().st_size)
    assert care(lakehouse, table, written=[[done], []]).deleted == 1
    assert (table / "part-at-work.parquet").exists()
    last.unlink()
    assert care(lakehouse, table, written=[[done], []]).deleted == 0


def test_files_of_a_done_record_that_the_table_has_yet_to_take_are_kept_however_old(lakehouse, table):
    create_table(table, CLICK)
    file = write_data_file(clicks(("ann", 1)), table, CLICK)
    grow_old(table, days=80)
    assert care(lakehouse, table, written=[[file]]).deleted == 0
    assert care(lakehouse, table, written=[]).deleted == 1


def test_rows_that_waited_to_be_merged_are_deleted_once_no_done_record_is_kept_of_them(lakehouse, table):
    create_table(table, CLICK)
    merged, failed = (write_data_file(clicks(("ann", minute)), table, CLICK, STAGED) for minute in (1, 2))
    kept = {"written": [[merged], []]}
    assert care(lakehouse, table, **kept).deleted == 0
    grow_old(table, days=8)
    assert care(lakehouse, table, **kept).deleted == 1
    assert [path.name for path in (table / STAGED).iterdir()] == [Path(merged.path).name]
    assert not (table / failed.path).exists()
