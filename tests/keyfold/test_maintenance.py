"""Maintenance of tables: what is joined, what is deleted, and what a reader that lags behind still finds."""

import json
import os
import time
from collections.abc import Callable
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.runner import RunOptions, run_job
from keyfold.lakehouse import Lakehouse, commits, exclusive
from keyfold.lakehouse.checksums import checksum_in_name
from keyfold.lakehouse.commits import replace_files
from keyfold.lakehouse.data_files import STAGED, WrittenFile, write_data_file
from keyfold.lakehouse.log_changes import changes_since, snapshot
from keyfold.lakehouse.paths import create_table, table_id
from keyfold.lakehouse.positions import Position, position_at
from keyfold.lakehouse.reading import data_file_paths
from keyfold.maintenance import Maintained, MaintainedTable, maintain
from keyfold.maintenance.backup import _Copier, back_up
from keyfold.maintenance.checking import Seen
from keyfold.maintenance.readers import Reader, readers
from keyfold.maintenance.recording import trim_log
from tests.keyfold.keyed.toy_jobs import CLICK, clicks, totals, windows
from tests.lake import Lake
from tests.made_generations import plan_of, put_done, put_generation

DAY = 86_400
EVENTS = "events.clicks"


@pytest.fixture
def table(lakehouse: Lakehouse) -> Path:
    lakehouse.events("clicks").mkdir(parents=True)
    return Path(str(lakehouse.events("clicks")))


def care(lakehouse: Lakehouse, table: Path, **settings) -> Maintained:
    return maintain(lakehouse, MaintainedTable(EVENTS, table, **{"time": "at", **settings}))


def read_to(table: Path, version: int) -> dict[str, Position]:
    """What a job has read, as its commit record says it."""
    return {EVENTS: position_at(table, version)}


def append(table: Path, *minutes: int) -> None:
    for minute in minutes:
        write_deltalake(
            str(table),
            clicks(("ann", minute)),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction("ingest", minute)]),
        )


def grow_old(table: Path, days: float) -> None:
    """Make all that was done to a table so many days older."""
    records = list(table.parents[1].glob("jobs/*/*/journal/*.json"))
    for log in (table / "_delta_log").glob("*.json"):
        before = position_of(log)
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            for name, key in (("commitInfo", "timestamp"), ("remove", "deletionTimestamp")):
                if name in action:
                    action[name][key] -= int(days * DAY * 1000)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
        for record in records:
            record.write_text(record.read_text().replace(before.digest, position_of(log).digest))
    for file in table.rglob("*.parquet"):
        touch(file, file.stat().st_mtime - days * DAY)


def position_of(log: Path) -> Position:
    return position_at(log.parents[1], int(log.stem))


def touch(file: Path, at: float) -> None:
    os.utime(file, (at, at))


def data_files(table: Path) -> int:
    return len(list(table.glob("*.parquet")))


def rows(table: Path) -> list[int]:
    return sorted(pl.read_delta(str(table))["at"].dt.minute().to_list())


def generation(lakehouse: Lakehouse, name: str = "generation-0001", *, live: bool = True):
    """A generation that reads the table and has no batch yet."""
    return put_generation(
        lakehouse, "windows", name, live=live, input_ids={EVENTS: table_id(lakehouse.events("clicks"))}
    )


def test_small_files_are_joined_and_kept_for_the_retention(lakehouse, table):
    append(table, 1, 2, 3)
    done = care(lakehouse, table)
    assert (done.files_before, done.files_after, done.deleted) == (3, 1, 0)
    assert (data_files(table), rows(table)) == (4, [1, 2, 3])
    assert done.not_deleted is done.kept_for is None
    grow_old(table, days=6)
    assert care(lakehouse, table).deleted == 0
    grow_old(table, days=2)
    later = care(lakehouse, table)
    assert (later.deleted, data_files(table), rows(table)) == (3, 1, [1, 2, 3])
    assert later.bytes_after < later.bytes_before


def test_a_table_without_a_time_is_joined_too(lakehouse, table):
    append(table, 1, 2, 3)
    done = care(lakehouse, table, time=None)
    assert (done.files_before, done.files_after, rows(table)) == (3, 1, [1, 2, 3])


@pytest.mark.parametrize("time", ["at", None])
def test_the_name_of_a_joined_file_has_its_checksum_and_who_reads_additions_passes_over_it(lakehouse, table, time):
    append(table, 1, 2, 3)
    position = position_at(table, 1)
    care(lakehouse, table, time=time)
    (joined,) = data_file_paths(table)
    assert checksum_in_name(joined.name)
    assert [file.rows for file in changes_since(table, position, "at").files] == [1]
    joined.write_bytes(joined.read_bytes()[:-1] + b"!")
    seen = Seen("restore it")
    seen.table(table)
    assert list(seen.faults) == [str(joined)]


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
    for frame in [*frames, pl.concat([frames[0]] * 100_000)]:
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
    monkeypatch.setattr(commits, "sync_file", lambda path: synced.append(int(path.stem)))
    meanwhile(lambda: append(table, 3))
    replace_files(table, files, [joined])
    assert (rows(table), synced) == ([1, 2, 3], [3])


def test_a_night_without_anything_to_do_leaves_no_trace(lakehouse, table):
    append(table, 1, 2)
    care(lakehouse, table)
    version = DeltaTable(str(table)).version()
    grow_old(table, days=8)
    assert care(lakehouse, table).deleted == 2
    assert DeltaTable(str(table)).version() == version


def test_what_was_written_exactly_once_is_still_known(lakehouse, table):
    append(table, 1, 2)
    care(lakehouse, table)
    assert DeltaTable(str(table)).transaction_version("ingest") == 2


def test_files_that_lie_across_each_other_follow_one_another_afterwards_and_jobs_see_nothing_new(lakehouse, table):
    create_table(table, CLICK)
    DeltaTable(str(table)).alter.set_table_properties({"delta.targetFileSize": str(2 << 20)})
    users = [f"{number * 7919 % 100_003:032x}" for number in range(250_000)]
    for number in range(4):
        # Each file spans the whole day; no two have a click at one time.
        minutes = [(number + 4 * at) * 1440 / 1_000_000 for at in range(250_000)]
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


def test_files_are_never_replaced_twice_nor_by_fewer_rows(lakehouse, table):
    append(table, 1, 2, 3)
    files = snapshot(table, "at").files
    joined = write_data_file(pl.read_delta(str(table)), table, CLICK)
    fewer = write_data_file(pl.read_delta(str(table)).head(2), table, CLICK)
    with pytest.raises(KeyfoldError, match="made 2 rows of 3"):
        replace_files(table, files, [fewer])
    replace_files(table, files, [joined])
    with pytest.raises(KeyfoldError, match="another process has replaced some of its files"):
        replace_files(table, files, [joined])
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


def test_files_are_kept_back_to_what_the_last_reader_has_yet_to_read(lakehouse, table):
    append(table, 1, 2)
    grow_old(table, days=10)
    append(table, 3)  # version 2, which the job has not read
    grow_old(table, days=30)
    care(lakehouse, table)
    grow_old(table, days=8)
    put_done(generation(lakehouse), 0, positions=read_to(table, 1))
    done = care(lakehouse, table)
    assert done.deleted == 0
    assert done.kept_for == "job windows, generation-0001"
    assert timedelta(days=38) < done.retention < timedelta(days=39)


def test_a_promotion_that_was_cut_off_keeps_the_files_that_it_has_yet_to_read(lakehouse, table):
    append(table, 1, 2)
    put_done(generation(lakehouse), 0, positions=read_to(table, 1))
    promoted = put_generation(
        lakehouse, "windows", "generation-0002", live=False, input_ids={EVENTS: table_id(table)}, branch="later"
    )
    put_done(promoted, 0, positions=read_to(table, 0))
    care(lakehouse, table)
    grow_old(table, days=30)
    done = care(lakehouse, table)
    assert (done.deleted, done.kept_for) == (0, "job windows, generation-0002")


def test_nothing_is_deleted_while_a_backup_runs_which_may_have_listed_it(lakehouse, table, tmp_path, monkeypatch):
    append(table, 1, 2)
    care(lakehouse, table)
    grow_old(table, days=8)
    copy, amid = _Copier.copy, []

    def copy_and_care(copier, name, cut):
        amid.append(care(lakehouse, table))
        with pytest.raises(KeyfoldError, match=r"a backup of .* is running"):
            trim_log(lakehouse, EVENTS, table, kept=1)
        return copy(copier, name, cut)

    monkeypatch.setattr(_Copier, "copy", copy_and_care)
    back_up(lakehouse, tmp_path / "backups")
    assert {(done.deleted, "a backup" in (done.not_deleted or "")) for done in amid} == {(0, True)}
    assert care(lakehouse, table).deleted == 2


@pytest.mark.parametrize("position", [1, 2])
def test_a_reader_that_has_caught_up_holds_nothing_back(lakehouse, table, position):
    append(table, 1, 2)
    care(lakehouse, table)  # version 2, which is nothing new to a reader that was here before
    put_done(generation(lakehouse), 0, positions=read_to(table, position))
    grow_old(table, days=8)
    done = care(lakehouse, table)
    assert (done.deleted, done.kept_for) == (2, None)


@pytest.mark.parametrize(("reading", "deleted"), [(True, 0), (False, 2)])
def test_a_reader_within_its_first_run_keeps_that_version_whole(lakehouse, table, reading, deleted):
    append(table, 1, 2)
    if reading:
        plans = [plan_of(batch, EVENTS, 1, run=0, batches=2) for batch in (0, 1)]
        generation(lakehouse).journal.write_plans(plans)
        put_done(generation(lakehouse), 0, run=0)
    care(lakehouse, table)
    grow_old(table, days=60)
    # Removals so long ago are forgotten by a checkpoint of the log: the files look like those of a killed write.
    DeltaTable(str(table)).create_checkpoint()
    for file in table.glob("*.parquet"):
        touch(file, time.time() - 90 * DAY)
    assert care(lakehouse, table).deleted == deleted


def test_a_generation_before_the_live_one_and_a_refresh_that_died_hold_nothing_back(lakehouse, table):
    append(table, *range(6))
    put_done(generation(lakehouse), 0, positions=read_to(table, 0))
    put_done(generation(lakehouse, "generation-0002"), 0, positions=read_to(table, 4))
    put_done(generation(lakehouse, "generation-0003", live=False), 0, positions=read_to(table, 1))
    live = Reader("job windows, generation-0002", 5, 4)
    assert list(readers(lakehouse, EVENTS, table)) == [live]
    with exclusive(lakehouse.job("windows"), "job windows"):
        assert list(readers(lakehouse, EVENTS, table)) == [live, Reader("job windows, generation-0003", 2, 1)]


@pytest.mark.parametrize(
    ("position", "version"),
    [
        (None, None),  # has not begun: reads the table as it will be
        (4, 5),
    ],
)
def test_the_first_version_needed_is_where_the_next_batch_begins(lakehouse, table, position, version):
    append(table, *range(6))
    job = generation(lakehouse)
    if position is not None:
        put_done(job, 0, positions=read_to(table, 2))
        job.journal.write_plans([plan_of(1, EVENTS, position)])
        put_done(job, 1, positions=read_to(table, position))
    assert [reader.version for reader in readers(lakehouse, EVENTS, table)] == ([] if version is None else [version])


def test_a_plan_that_is_not_done_keeps_what_was_new_when_its_run_began(lakehouse, table):
    append(table, *range(10))
    job = generation(lakehouse)
    put_done(job, 0, positions=read_to(table, 2))
    job.journal.write_plans([plan_of(batch, EVENTS, 9, run=1, batches=2) for batch in (1, 2)])
    put_done(job, 1, run=1, positions=read_to(table, 2))
    assert list(readers(lakehouse, EVENTS, table)) == [Reader("job windows, generation-0001", 3, 2)]


def test_readers_of_other_tables_of_a_table_that_was_here_before_and_of_an_older_form_hold_nothing_back(
    lakehouse, table
):
    append(table, 1)
    put_done(put_generation(lakehouse, "windows", input_ids={EVENTS: "another"}), 0, positions=read_to(table, 0))
    put_done(put_generation(lakehouse, "older", format=1), 0, positions=read_to(table, 0))
    assert list(readers(lakehouse, EVENTS, table)) == []
    put_done(generation(lakehouse), 1, positions=read_to(table, 0))
    (lakehouse.events("other")).mkdir()
    append(lakehouse.events("other"), 1)
    assert list(readers(lakehouse, "events.other", lakehouse.events("other"))) == []


def test_where_it_cannot_be_told_how_far_a_reader_has_come_nothing_is_deleted(lakehouse, table):
    append(table, 1, 2)
    care(lakehouse, table)
    grow_old(table, days=60)
    job = generation(lakehouse)
    put_done(job, 0, positions=read_to(table, 0))
    record = job.folder / "journal" / "000000000.done.json"
    good = record.read_text()
    record.write_text('{"batch": 0}')
    done = care(lakehouse, table)
    assert done.deleted == 0
    assert "is damaged" in (done.not_deleted or "")
    record.write_text(good)
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / f"{1:020d}.json").unlink()
    done = care(lakehouse, table)
    assert done.deleted == 0
    assert "has no entry of version 1" in (done.not_deleted or "")


def test_a_reader_meets_joined_files_once_and_finds_what_it_has_yet_to_read(without_spark, lakehouse, table):
    job, file_by_file = windows(), RunOptions(max_bytes_per_batch=1)
    append(table, 0, 1, 2)
    run_job(lakehouse, job, runners=without_spark)
    append(table, 20, 21, 22)
    grow_old(table, days=30)
    assert care(lakehouse, table).files_after == 1
    grow_old(table, days=10)
    # The three files that the job read are replaced by one and 10 days past that; the three that it has not are too.
    kept = care(lakehouse, table)
    assert kept.kept_for == "job windows, generation-0001"
    summary = run_job(lakehouse, job, options=file_by_file, runners=without_spark)
    assert (summary.counts.events, summary.totals.events) == (3, 6)
    assert care(lakehouse, table).deleted == 6
    assert run_job(lakehouse, job, runners=without_spark).counts.events == 0
    append(table, 40)
    assert run_job(lakehouse, job, runners=without_spark).counts.events == 1
    afresh = run_job(lakehouse, job, FullRefresh(), runners=without_spark)
    assert afresh.totals.events == 7
    assert afresh.totals.rows["late.windows"] == 0


def test_a_run_that_was_cut_off_finds_its_files_and_its_rows_after_maintenance(
    without_spark, lakehouse, table, cut_power
):
    append(table, *range(30))
    run_job(lakehouse, totals(), runners=without_spark)
    append(table, *range(30, 60))
    # Once for the last batch's commits, which were made, and once for this one's.
    assert cut_power("commit: before", lambda: run_job(lakehouse, totals(), runners=without_spark), 2)
    live = Lake(lakehouse).live("totals")
    for path in (table, live.table("totals"), live.table("changes")):
        grow_old(Path(str(path)), days=20)
    assert care(lakehouse, table).files_after == 1
    grow_old(table, days=20)
    # The batch is committed: no run reads its files again.
    assert care(lakehouse, table).deleted == 60
    for name in ("totals", "changes"):
        written = [done.tables.get(name, ()) for done in live.journal.recent()]
        assert maintain(lakehouse, MaintainedTable(name, live.table(name), written)).deleted == 0
    assert run_job(lakehouse, totals(), runners=without_spark).totals.events == 60
    assert pl.read_delta(str(live.table("totals"))).rows() == [("ann", 60)]
    assert pl.read_delta(str(live.table("changes")))["clicks"].sum() == 60
