"""What a job wrote lately: the files that its done records name, whatever maintenance has made of the table since."""

import polars as pl

from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.written_files import files_written, last_batch
from keyfold.maintenance import MaintainedTable, maintain
from tests.keyfold.keyed.toy_jobs import totals, windows


def written(lakehouse, job, table, since, until, generation="generation-0001"):
    """Clicks of the rows written, by batch; None where it cannot be told."""
    files = files_written(lakehouse, job, table, generation, since, until)
    return files and {batch: sum(map(clicks_of, paths)) for batch, paths in files.items()}


def clicks_of(path):
    return pl.read_parquet(path.read_bytes())["clicks"].sum()


def test_before_the_first_batch_there_is_nothing_to_tell_of(lakehouse):
    assert last_batch(lakehouse, "windows") is None
    assert files_written(lakehouse, "windows", "windows", "generation-0001", -1, 0) is None


def test_one_row_written_is_one_row_told_of_though_its_file_was_joined_with_others(lake, lakehouse):
    for minute in (0, 20, 40):
        lake.click(("ann", minute))
        lake.run(windows())
    before = last_batch(lakehouse, "windows")
    lake.click(("ann", 60), ("ann", 61))
    lake.run(windows())
    batch = last_batch(lakehouse, "windows")
    assert (before, batch) == (2, 3)
    live = lake.live("windows")
    assert maintain(lakehouse, MaintainedTable("windows", live.table("windows"))).files_after == 1
    assert written(lakehouse, "windows", "windows", before, batch) == {3: 1}
    assert written(lakehouse, "windows", "windows", 0, batch) == {1: 1, 2: 1, 3: 1}


def test_of_an_upsert_table_the_rows_are_told_of_and_not_the_files_they_were_merged_into(lake, lakehouse):
    lake.click(*[("ann", minute) for minute in range(5)], ("bob", 1))
    lake.run(totals())
    lake.click(("bob", 5))
    lake.run(totals())
    # bob has two clicks by now, and ann's row, which lies in the same file, was not written.
    assert written(lakehouse, "totals", "totals", 0, 1) == {1: 2}


def test_what_another_generation_wrote_or_what_is_gone_cannot_be_told(lake, lakehouse):
    for minute in (0, 20, 40):
        lake.click(("ann", minute))
        lake.run(windows())
    assert written(lakehouse, "windows", "windows", 2, 2) == {}
    assert written(lakehouse, "windows", "windows", 2, 3) is None
    assert written(lakehouse, "windows", "windows", 0, 2, "generation-0000") is None
    files = files_written(lakehouse, "windows", "windows", "generation-0001", 0, 2)
    assert files
    files[1][0].unlink()
    assert written(lakehouse, "windows", "windows", 0, 2) is None
    assert written(lakehouse, "windows", "windows", 1, 2) == {2: 1}
    lake.run(windows(), FullRefresh())
    assert written(lakehouse, "windows", "windows", 1, 2) is None
