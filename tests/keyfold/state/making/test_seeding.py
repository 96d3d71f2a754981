"""A seeded job goes on as one that saw all of history."""

import json
from datetime import timedelta

import polars as pl
import pytest
from deltalake import write_deltalake

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse.foreign import check_files_are_inside
from keyfold.state.making.seeding import SeedSource, seed_job
from keyfold.state.making.sources import open_source
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTALS
from tests.keyfold.keyed.toy_jobs import windows
from tests.shop import START


def open_windows(*users):
    """State as another system would hand it over: open windows of (user, minute the window began, clicks)."""
    return pl.DataFrame(
        {
            "who": [user for user, _, _ in users],
            "began": [(START + timedelta(minutes=minute)).isoformat() for _, minute, _ in users],
            "clicks": [count for _, _, count in users],
        }
    )


MAPPING = {"user": "who", "window": "began"}


def test_a_look_leaves_everything_as_it_was_and_the_journal_says_what_was_seeded(
    lakehouse, without_spark, land, minutes, tmp_path
):
    land(("ann", 1))
    path = tmp_path / "seed.jsonl"
    path.write_text('{"user": "ann", "window": "2026-01-01T00:00:00Z", "clicks": 2}\n')
    told = seed_job(lakehouse, windows(), SeedSource(str(path), read_from="start"), runners=without_spark)
    assert told.generation is None
    assert (told.new_rows, told.checked.left_empty, told.checked.timers) == (1, ("deadline",), {"deadline": 0})
    assert told.sample["user"].to_list() == ["ann"]
    assert live_generation(lakehouse, "windows") is None
    assert not lakehouse.job("windows").exists()
    seed_job(lakehouse, windows(), SeedSource(str(path), read_from="start"), yes=True, runners=without_spark)
    live = live_generation(lakehouse, "windows")
    assert live is not None
    assert live.journal.history(9)[0].read.startswith(f"seed of {path}: 1 row of state; ")


def test_rows_of_which_a_key_has_one_are_held_to_it(lakehouse, without_spark, land, tmp_path):
    land(("ann", 1))
    path = tmp_path / "seed.jsonl"
    path.write_text('{"user": "ann"}\n{"user": "bob"}\n{"user": "ann"}')
    with pytest.raises(KeyfoldError, match=r"at most one such row for each user, but ann has rows 1, 3"):
        seed_job(
            lakehouse,
            windows(one_per_key=pl.lit(True)),
            SeedSource(str(path), read_from="latest"),
            yes=True,
            runners=without_spark,
        )


@pytest.mark.parametrize(
    ("line", "mapping", "message"),
    [
        ({"item": "tea", "total": 14}, {}, r"cumulative_quantity is empty in 1 row \(row 1\), and may not be"),
        (
            {"item": "tea", "cumulative_quantity": 14, "quantity": 14},
            {},
            r"quantity is a column of waiting events alone, and would be lost in 1 row \(row 1\); the aggregates are in cumul",
        ),
        (
            {"item": "tea", "cumulative_quantity": 14},
            {"models": "['black']"},
            r"models is a column of waiting events alone, .* are in cumulative_quantity, _models",
        ),
    ],
)
def test_a_total_does_not_begin_anew_because_its_column_has_another_name(
    lakehouse, without_spark, tmp_path, line, mapping, message
):
    path = tmp_path / "seed.jsonl"
    path.write_text(json.dumps(line))
    with pytest.raises(KeyfoldError, match=message):
        seed_job(lakehouse, PURCHASE_TOTALS, SeedSource(str(path), mapping, read_from="start"), runners=without_spark)


def test_a_job_that_never_ran_must_be_told_where_to_read_on(lakehouse, without_spark, land, tmp_path):
    land(("ann", 1))
    path = tmp_path / "seed.jsonl"
    path.write_text('{"user": "ann"}')
    with pytest.raises(KeyfoldError, match="--from-version"):
        seed_job(lakehouse, windows(), SeedSource(str(path)), yes=True, runners=without_spark)


def test_a_source_that_is_not_there_is_told_with_those_that_are(lakehouse, without_spark, land):
    land(("ann", 1))
    with pytest.raises(KeyfoldError, match=r"neither a path nor a table of .*events.clicks"):
        seed_job(lakehouse, windows(), SeedSource("events.klicks"), yes=True, runners=without_spark)


def test_a_partitioned_delta_table_is_a_seed_with_its_partition_columns(
    lakehouse, without_spark, land, rows, minutes, tmp_path
):
    land(("ann", 1))
    seeds = open_windows(("ann", 0, 2), ("zoë / %41", 0, 5)).with_columns(deadline=pl.lit(minutes(10).isoformat()))
    write_deltalake(str(tmp_path / "a table"), seeds, partition_by=["who"])
    seed_job(
        lakehouse,
        windows(),
        SeedSource(str(tmp_path / "a table"), MAPPING, read_from="latest"),
        yes=True,
        runners=without_spark,
    )
    run_job(lakehouse, windows(), Incremental(advance_to=minutes(60)), runners=without_spark)
    assert rows("windows") == [("ann", minutes(0), 2), ("zoë / %41", minutes(0), 5)]


@pytest.mark.parametrize(
    "path", ["{outside}", "file://{outside}", "../outside.parquet", "%2e%2e/outside.parquet", "link.parquet"]
)
def test_a_delta_table_whose_log_names_files_outside_its_folder_is_refused(lakehouse, tmp_path, path):
    outside, table = tmp_path / "outside.parquet", tmp_path / "table"
    pl.DataFrame({"user": ["secret"]}).write_parquet(outside)
    write_deltalake(str(table), pl.DataFrame({"user": ["ann"]}))
    (table / "link.parquet").symlink_to(outside)
    log = table / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"] |= {"path": path.format(outside=outside), "size": outside.stat().st_size}
    log.write_text("\n".join(map(json.dumps, actions)))
    for read in (lambda: open_source(lakehouse, str(table)), lambda: check_files_are_inside(table)):
        with pytest.raises(KeyfoldError, match="outside its folder"):
            read()


def test_a_folder_of_files_with_a_link_out_of_it_is_refused(lakehouse, tmp_path):
    pl.DataFrame({"user": ["secret"]}).write_parquet(tmp_path / "outside.parquet")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link.parquet").symlink_to(tmp_path / "outside.parquet")
    with pytest.raises(KeyfoldError, match="outside its folder"):
        open_source(lakehouse, str(tmp_path / "folder"))
