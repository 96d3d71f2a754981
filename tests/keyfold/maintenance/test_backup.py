"""A backup that is taken while runs go on restores to a lakehouse that goes on as if nothing had happened."""

import gzip
import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from errno import EACCES, ENOENT

import polars as pl
import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.errors import Damaged, KeyfoldError
from keyfold.keyed.generation.going_live import finish_going_live
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse, fail_points
from keyfold.maintenance import backup as making
from keyfold.maintenance import backup_parts
from keyfold.maintenance.backup import back_up, backups_in, restore
from keyfold.maintenance.checking import check
from keyfold.runs import ingest
from keyfold.runs.chains import refresh_with_consumers
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import RIDE_POINTS, SALES
from tests.chained_jobs import HOURLY, Chain, adding_up
from tests.lake import LOCAL
from tests.shop import NOON

DELIVERIES = 3
JOB = build_job(JOBS["ride_summaries"], {"close": "complete", "key_groups": 2})
TOTALS = build_job(JOBS["purchase_totals"], {"key_groups": 2})


def deliver(lakehouse, stream, name, content):
    path = lakehouse.landing(stream.name) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{name}")
    aside.write_bytes(content)
    aside.rename(path)


def work(lakehouse):
    """Ingest what has landed, and run both jobs: one with timers, one that replaces rows of a table."""
    for stream in (RIDE_POINTS, SALES):
        ingest(lakehouse, stream, settle=timedelta(0), runners=LOCAL)
    for job in (JOB, TOTALS):
        run_job(lakehouse, job, runners=LOCAL)


def rows(lakehouse):
    """The rows of every table, without what says when and by which batch they were made."""
    found = {}
    for name, path in lakehouse.tables().items():
        table = pl.read_delta(str(path))
        kept = [column for column in table.columns if column not in ("ingested_at", "batch", "file")]
        found[name] = sorted(table.select(kept).rows(), key=repr)
    return found


def sales(number):
    lines = [
        {"item": f"item {one % 7}", "quantity": one, "time": f"2026-01-0{number + 1}T00:00:{one:02}Z"}
        for one in range(50)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def test_a_backup_that_was_taken_in_the_midst_of_runs_goes_on_to_the_same_tables(tmp_path, real_data):
    lakehouse, backups = Lakehouse(tmp_path / "home"), tmp_path / "backups"
    points = [path.read_bytes() for path in sorted((real_data / "rides").glob("*.gz"))[2 : 2 + DELIVERIES]]

    def delivery(home, number):
        deliver(home, RIDE_POINTS, f"{number}.ndjson.gz", points[number])
        deliver(home, SALES, f"{number}.ndjson", sales(number))

    def all_of_it():
        for number in range(DELIVERIES):
            delivery(lakehouse, number)
            work(lakehouse)

    made = []
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(all_of_it)
        while not running.done():
            if lakehouse.events(SALES.name).is_dir():
                made.append(back_up(lakehouse, backups))
        running.result()
    expected = rows(lakehouse)
    assert len(made) > DELIVERIES
    backup, again = made[len(made) // 2], Lakehouse(tmp_path / "restored")
    restored = restore(backups, again, backup.name)
    assert (restored.name, restored.files, restored.bytes) == (backup.name, backup.files, backup.bytes)
    assert [one for one in check(again) if one.is_damage] == []
    for missing in range(DELIVERIES):
        if not (again.landing(SALES.name) / f"{missing}.ndjson").exists():
            delivery(again, missing)
    work(again)
    assert rows(again) == expected


def small_lakehouse(home):
    lakehouse = Lakehouse(home)
    for number in range(3):
        deliver(lakehouse, SALES, f"{number}.ndjson", sales(number))
    return lakehouse


def whole_lakehouse(home):
    """A lakehouse of one stream and one job, as after their first runs."""
    lakehouse = small_lakehouse(home)
    ingest(lakehouse, SALES, settle=timedelta(0), runners=LOCAL)
    run_job(lakehouse, TOTALS, runners=LOCAL)
    return lakehouse


def test_a_backup_copies_only_what_is_new_and_each_is_whole_by_itself(tmp_path):
    lakehouse, backups = small_lakehouse(tmp_path / "home"), tmp_path / "backups"
    first = back_up(lakehouse, backups)
    deliver(lakehouse, SALES, "3.ndjson", sales(3))
    (lakehouse.landing(SALES.name) / "0.ndjson").unlink()
    second = back_up(lakehouse, backups)
    assert (first.files, first.new_bytes, second.files, second.new_bytes) == (3, first.bytes, 3, len(sales(3)))
    for backup, names in ((first, "012"), (second, "123")):
        restore(backups, again := Lakehouse(tmp_path / backup.name), backup.name)
        assert {path.name: path.read_bytes() for path in again.landing(SALES.name).iterdir()} == {
            f"{name}.ndjson": sales(int(name)) for name in names
        }
    assert backups_in(backups) == [first.name, second.name]
    assert len(list((backups / "content").iterdir())) == 4


def test_what_cannot_be_backed_up_or_restored_is_refused_and_says_why(tmp_path):
    lakehouse, backups = small_lakehouse(tmp_path / "home"), tmp_path / "backups"
    with pytest.raises(KeyfoldError, match="there is no lakehouse in"):
        back_up(Lakehouse(tmp_path / "none"), backups)
    with pytest.raises(KeyfoldError, match="is inside the lakehouse"):
        back_up(lakehouse, lakehouse.home / "backups")
    with pytest.raises(KeyfoldError, match="has no backup yet; backups there: none"):
        restore(backups, Lakehouse(tmp_path / "new"))
    name = back_up(lakehouse, backups).name
    with pytest.raises(KeyfoldError, match="is not empty"):
        restore(backups, lakehouse)
    with pytest.raises(KeyfoldError, match=f"backups there: {name}"):
        restore(backups, Lakehouse(tmp_path / "new"), "other")


def test_a_job_that_is_lost_is_told_and_all_others_are_backed_up(tmp_path):
    lakehouse, backups = Lakehouse(tmp_path / "home"), tmp_path / "backups"
    deliver(lakehouse, SALES, "0.ndjson", sales(0))
    ingest(lakehouse, SALES, settle=timedelta(0))
    for name in ("purchase_totals", "model_totals"):
        run_job(lakehouse, build_job(JOBS[name]))
    lakehouse.job("purchase_totals").remove_tree()
    with pytest.raises(Damaged, match=r"is made, but lacks .*tables/purchase_totals is a table of no job"):
        back_up(lakehouse, backups)
    restore(backups, again := Lakehouse(tmp_path / "again"))
    assert rows(again)["model_totals"] == rows(lakehouse)["model_totals"]
    for table in lakehouse.home.glob("tables/*purchase_totals"):
        table.remove_tree()  # it was removed on purpose
    assert back_up(lakehouse, backups)


@pytest.mark.parametrize("damage", ["gone", "damaged", "a link"])
def test_damaged_content_of_a_backup_is_named_and_not_restored(tmp_path, damage):
    lakehouse, backups = small_lakehouse(tmp_path / "home"), tmp_path / "backups"
    back_up(lakehouse, backups)
    content = sorted((backups / "content").iterdir())[0]
    if damage == "damaged":
        content.write_bytes(content.read_bytes()[:-1] + b"?")
    else:
        content.rename(tmp_path / "elsewhere")
    if damage == "a link":
        content.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyfoldError, match=f"{content.name}.*of landing/sales.* is damaged or gone, or it is a link"):
        restore(backups, Lakehouse(tmp_path / "new"))


@pytest.mark.parametrize(
    "path", ["/etc/new", "../outside", "landing/../../outside", "landing\\..", "landing/sales/0.ndjson"]
)
@pytest.mark.parametrize("digest", ["as it is", "../outside", "/etc/passwd", ""])
def test_a_list_that_names_a_file_outside_of_home_and_backups_is_refused(tmp_path, path, digest):
    backups, content = tmp_path / "backups", b"what was backed up"
    its_own = hashlib.blake2b(content, digest_size=32).hexdigest()
    write(backups / "content" / its_own, content)
    write(backups / "outside", content)
    files = [(path, len(content), 0, "", its_own if digest == "as it is" else digest)]
    write(backups / "backups" / "one.json.gz", gzip.compress(json.dumps(files).encode()))
    if (path, digest) == ("landing/sales/0.ndjson", "as it is"):
        restore(backups, Lakehouse(tmp_path / "new"))
        assert (tmp_path / "new" / path).read_bytes() == content
        return
    with pytest.raises(KeyfoldError, match="leads out of the folder"):
        restore(backups, Lakehouse(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def not_listed(monkeypatch, folder):
    """Refuse to list a folder, as to a user who may not read it: tests may run as root."""
    scandir, listdir = os.scandir, os.listdir

    def refusing(list_folder):
        def listed(path="."):
            if str(path) == str(folder):
                raise PermissionError(EACCES, "Permission denied", str(path))
            return list_folder(path)

        return listed

    monkeypatch.setattr(os, "scandir", refusing(scandir))
    monkeypatch.setattr(os, "listdir", refusing(listdir))


@pytest.mark.parametrize("folder", ["jobs", "jobs/purchase_totals", "ingest/sales/journal", "events/sales/_delta_log"])
def test_what_cannot_be_read_is_neither_backed_up_nor_called_well(tmp_path, monkeypatch, folder):
    lakehouse, backups = whole_lakehouse(tmp_path / "home"), tmp_path / "backups"
    first = back_up(lakehouse, backups)
    not_listed(monkeypatch, lakehouse.home / folder)
    with pytest.raises(KeyfoldError, match=f"{folder} cannot be read: Permission denied; give this user access"):
        back_up(lakehouse, backups)
    with pytest.raises(KeyfoldError, match=f"{folder} cannot be read: Permission denied"):
        check(lakehouse)
    assert backups_in(backups) == [first.name]


def test_a_home_that_is_none_is_neither_backed_up_nor_called_well(tmp_path):
    lakehouse, backups = whole_lakehouse(tmp_path / "home"), tmp_path / "backups"
    first = back_up(lakehouse, backups)
    (tmp_path / "home").rename(tmp_path / "mounted")
    # What is left where a disk was mounted, also one that had a folder in it.
    for left in ("", "lost+found", "jobs", ".dagster"):
        (lakehouse.home / left).mkdir(parents=True)
        for command in (["backup", str(backups)], ["check"]):
            done = CliRunner().invoke(app, [*command, "--home", str(lakehouse.home)])
            assert done.exit_code == 1
            assert f"there is no lakehouse in {lakehouse.home}: it has no streams, jobs or landed files" in done.stderr
    assert backups_in(backups) == [first.name]


def test_a_table_that_goes_to_its_address_while_it_is_listed_is_backed_up(tmp_path, monkeypatch):
    lakehouse, backups, is_table = whole_lakehouse(tmp_path / "home"), tmp_path / "backups", backup_parts.is_table
    expected = rows(lakehouse)

    def cut_off(point):
        if point == "generation: live":
            raise InterruptedError(point)

    with monkeypatch.context() as cutting:
        cutting.setattr(fail_points, "act", cut_off)
        with pytest.raises(InterruptedError):
            run_job(lakehouse, TOTALS, FullRefresh(), runners=LOCAL)

    def after_it_went(table):
        finish_going_live(lakehouse, TOTALS.name)
        return is_table(table)

    monkeypatch.setattr(backup_parts, "is_table", after_it_went)
    back_up(lakehouse, backups)
    restore(backups, again := Lakehouse(tmp_path / "again"))
    assert not any(one.is_damage for one in check(again))
    assert rows(again) == rows(lakehouse) == expected


def test_a_killed_backup_leaves_the_earlier_ones_and_the_next_one_sweeps(tmp_path):
    lakehouse, backups = small_lakehouse(tmp_path / "home"), tmp_path / "backups"
    first = back_up(lakehouse, backups)
    (backups / "content" / ".aside-killed").write_bytes(b"half")
    lakehouse.landing(SALES.name).remove_tree()
    restore(backups, lakehouse, first.name)
    back_up(lakehouse, backups)
    assert not (backups / "content" / ".aside-killed").exists()


@pytest.mark.parametrize("times", [1, 99])
def test_a_file_that_is_removed_while_it_is_copied_is_listed_again_and_one_that_stays_away_is_told(
    tmp_path, monkeypatch, times
):
    lakehouse, backups, copy = whole_lakehouse(tmp_path / "home"), tmp_path / "backups", making._copy
    removed = []

    def copy_what_is_there(file, *to):
        if "manifests" in file.path.parts and len(removed) < times:
            removed.append(file)
            raise FileNotFoundError(ENOENT, "No such file or directory", str(file.path))
        return copy(file, *to)

    monkeypatch.setattr(making, "_copy", copy_what_is_there)
    if times > 1:
        with pytest.raises(
            KeyfoldError,
            match=r"jobs/purchase_totals/generation-0001 could not be backed up: .*manifests.*in each of 10 tries",
        ):
            back_up(lakehouse, backups)
        return
    back_up(lakehouse, backups)
    restore(backups, again := Lakehouse(tmp_path / "again"))
    assert not any(one.is_damage for one in check(again))
    assert rows(again) == rows(lakehouse)


PER_USER = adding_up("per_user", HOURLY, "1d", timedelta(hours=1))


def test_a_backup_of_a_chain_that_goes_on_restores_to_a_chain_that_goes_on(tmp_path, monkeypatch):
    site, backups, table_of = Chain(tmp_path / "home"), tmp_path / "backups", backup_parts._table
    worked = []

    def work(of):
        """A new click a call, which closes the hour before: the producer gets a row, and its consumer reads it."""
        if of not in worked:
            worked.append(of)
            site.click(("ann", 70 * len(worked)))
            site.run(HOURLY)
            site.run(PER_USER)

    def work_and_list(table, *until):
        # Its journal was listed before.
        work(table)
        return table_of(table, *until)

    work("before")
    work("once more")
    monkeypatch.setattr(backup_parts, "_table", work_and_list)
    back_up(site.lakehouse, backups)
    restore(backups, Lakehouse(tmp_path / "new"))
    assert len(worked) > 4
    again = Chain(tmp_path / "new")
    assert [one for one in check(again.lakehouse) if one.is_damage] == []
    again.lake.landed = 99
    again.click(("bob", 60 * 24 * 9))
    again.run(HOURLY, Incremental(NOON + timedelta(days=20)))
    again.run(PER_USER)
    # Each click that landed, also after the tables were copied, is counted once by the job and once by its consumer.
    landed = len(list(again.lakehouse.landing("clicks").iterdir()))
    assert [sum(clicks for *_, clicks in again.table(name)) for name in ("hourly", "per_user")] == [landed, landed]


def test_a_backup_amid_a_refresh_of_a_chain_has_all_of_it_or_nothing(tmp_path, monkeypatch):
    site, backups, files, refreshed = Chain(tmp_path / "home"), tmp_path / "backups", backup_parts.files_of, []
    for minute in (0, 70, 140):
        site.click(("ann", minute))
        site.run(HOURLY)
        site.run(PER_USER)

    def list_and_refresh(part, others):
        listed = list(files(part, others))
        if part.folder.parent.name == "per_user" and not refreshed:
            refreshed.extend(refresh_with_consumers(site.lakehouse, HOURLY, [PER_USER], runners=site.spark))
        return listed

    monkeypatch.setattr(making, "files_of", list_and_refresh)
    back_up(site.lakehouse, backups)
    restore(backups, Lakehouse(tmp_path / "new"))
    assert [run.generation for run in refreshed] == ["generation-0002"] * 2
    again = Chain(tmp_path / "new")
    assert not any(one.is_damage for one in check(again.lakehouse))
    for job in (HOURLY, PER_USER):
        assert again.run(job).counts.events == 0


def test_a_consumer_that_is_ahead_of_its_producer_is_found(tmp_path):
    site = Chain(tmp_path / "home")
    for minute in (0, 70, 140):
        site.click(("ann", minute))
        site.run(HOURLY)
        if minute < 140:
            shutil.copytree(str(site.lakehouse.home), tmp_path / f"at {minute}")
        site.run(PER_USER)
    assert [one for one in check(site.lakehouse) if one.is_damage] == []
    for folder in ("jobs/hourly", "tables/hourly"):
        shutil.rmtree(tmp_path / "home" / folder)
        shutil.copytree(tmp_path / "at 70" / folder, tmp_path / "home" / folder)
    (found,) = [one for one in check(site.lakehouse) if one.is_damage]
    assert "cannot go on (job per_user" in found.fault
