"""A journal, state, a table or a pointer of another time is refused with its remedy, and the remedy works."""

import pytest
from deltalake import write_deltalake

from keyfold.errors import Damaged, KeyfoldError
from keyfold.keyed.conservation import check_conservation
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse.reading import data_file_paths
from keyfold.maintenance.checking import check
from keyfold.runners import Runners
from tests.folders import copy_folder, remove_folder
from tests.keyfold.keyed.toy_jobs import totals
from tests.lake import Lake
from tests.shop import clicks


def live(lakehouse, job="totals"):
    """The live generation, which is there."""
    return Lake(lakehouse).live(job)


@pytest.fixture(scope="module")
def ran_before(new_home):
    """A lakehouse with a job that ran three times, and a copy of its generation as it was after the first run."""
    lakehouse, spark = new_home("ran"), Runners("local")
    backup = lakehouse.home.with_name("ran-backup")
    lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
    for number, user in enumerate(["ann", "bob", "ann"]):
        write_deltalake(str(lakehouse.events("clicks")), clicks((user, number)), mode="append")
        run_job(lakehouse, totals(), runners=spark)
        if not number:
            copy_folder(live(lakehouse).folder, backup)
            copy_folder(lakehouse.home / "tables", backup / "tables")
    return lakehouse, backup


@pytest.fixture
def ran_thrice(lakehouse, ran_before):
    """Has it copied to the test's own lakehouse; gives the copy of the generation, which no test changes."""
    before, backup = ran_before
    copy_folder(before.home, lakehouse.home)
    return backup


def restore(generation, backup, *parts):
    for part in parts:
        place = generation.address if part == "tables" else generation.folder / part
        remove_folder(place)
        copy_folder(backup / part, place)


@pytest.mark.parametrize("table", ["totals", "changes"])
def test_a_table_of_another_history_that_has_taken_the_same_batch_is_refused_and_a_refresh_mends_it(
    lake, lakehouse, ran_thrice, table
):
    generation = live(lakehouse)
    other = lakehouse.home.with_name("other")
    copy_folder(generation.table(table), other)
    restore(generation, ran_thrice, "journal", "state", "tables")
    # What is new comes in one batch now, and another one makes the numbers equal.
    lake.run(totals())
    lake.click(("eve", 9))
    lake.run(totals())
    lake.run(totals())
    remove_folder(generation.table(table))
    copy_folder(other, generation.table(table))
    with pytest.raises(
        Damaged, match=rf"batch 2 that table {table} .* is not the one in its journal: .*--full-refresh"
    ):
        lake.run(totals())
    assert any(one.is_damage for one in check(lakehouse))
    lake.run(totals(), FullRefresh())
    assert lake.rows("totals") == [("ann", 2), ("bob", 1), ("eve", 1)]


@pytest.mark.parametrize("damage", ["deleted", "cut short"])
@pytest.mark.parametrize("whose", ["changes", "events.clicks"])
def test_a_data_file_that_is_gone_or_of_another_size_is_named_with_its_remedy(
    lake, lakehouse, ran_thrice, whose, damage
):
    file = data_file_paths(lakehouse.table(whose))[0]
    file.unlink() if damage == "deleted" else file.write_bytes(file.read_bytes()[:-1])
    if whose == "events.clicks":
        # Nothing new is to be read: no run looks at that file.
        lake.click(("eve", 9))
        lake.run(totals())
        remedy = "--rebuild"
    else:
        with pytest.raises(KeyfoldError, match=f"its table changes .*{file.name}.*--full-refresh"):
            lake.run(totals())
        remedy = "--full-refresh"
    with pytest.raises(KeyfoldError, match=f"{whose} .*{file.name}.*{remedy}"):
        check_conservation(lakehouse, totals())


@pytest.mark.parametrize("parts", [("journal", "state", "tables"), ("journal", "tables")])
def test_a_generation_that_was_restored_goes_on_from_where_it_stood(lake, lakehouse, ran_thrice, parts):
    """Also with newer state, which no record of the restored journal names."""
    restore(live(lakehouse), ran_thrice, *parts)
    lake.click(("eve", 9))
    lake.run(totals())
    assert lake.rows("totals") == [("ann", 2), ("bob", 1), ("eve", 1)]


def test_an_event_table_that_is_older_than_the_job_or_another_one_is_refused(lake, lakehouse):
    old = lakehouse.home.with_name("old")
    lake.click(("ann", 0))
    copy_folder(lakehouse.events("clicks"), old)
    lake.click(("bob", 1))
    lake.run(totals())
    remove_folder(lakehouse.events("clicks"))
    copy_folder(old, lakehouse.events("clicks"))
    with pytest.raises(KeyfoldError, match=r"is at version 0, yet its version 1 was read.*--full-refresh"):
        lake.run(totals())
    remove_folder(lakehouse.events("clicks"))
    lake.click(("eve", 1))
    with pytest.raises(KeyfoldError, match=r"events.clicks is not the table that it has read.*--full-refresh"):
        lake.run(totals())
    lake.run(totals(), FullRefresh())
    assert lake.rows("totals") == [("eve", 1)]
