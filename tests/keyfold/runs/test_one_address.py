"""A job's tables stay at one address: whoever reads them while another generation goes live has all old rows, or all new ones."""

import dataclasses
from datetime import timedelta
from functools import partial

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

import keyfold
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.tables import Append
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import fail_points
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.state.changing.promoting import promote
from keyfold.state.changing.trying import try_job
from tests.keyfold.keyed.toy_jobs import NOTED, TOTAL, WINDOW_TOTAL, totals, windows, with_note
from tests.shop import START

PATIENT = timedelta(minutes=60)
COLUMNS = ("user", "window", "clicks")


def by_polars(table):
    return sorted(pl.scan_delta(str(table)).select(COLUMNS).collect().rows())


def by_duckdb(table):
    """Over Arrow, since DuckDB's own extension is downloaded."""
    windows = DeltaTable(str(table)).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("windows", windows)
        return sorted(connection.sql('SELECT "user", "window", clicks FROM windows').pl().rows())


def by_pandas(table):
    return sorted(pl.from_pandas(DeltaTable(str(table)).to_pandas())[list(COLUMNS)].rows())


READERS = {"polars": by_polars, "duckdb": by_duckdb, "pandas": by_pandas}


@pytest.fixture
def address(without_spark, lakehouse, land):
    """The address of a table that two batches have written, and that has other rows after a refresh with a longer delay."""
    for user, minute in (("ann", 1), ("bob", 25), ("ann", 2), ("cat", 70), ("bob", 26), ("dan", 120)):
        land((user, minute))
        run_job(lakehouse, windows(), runners=without_spark)
    return lakehouse.table("windows")


def refresh(spark, lakehouse, job=None):
    return run_job(lakehouse, job or windows(delay=PATIENT), FullRefresh(), runners=spark)


def promoting(spark, lakehouse):
    """Try a job with a longer delay, and return what promotes the branch."""
    try_job(lakehouse, windows(delay=PATIENT), "patient", runners=spark)
    return lambda: promote(lakehouse, "windows", "patient")


@pytest.mark.parametrize("prepared", [lambda spark, lakehouse: partial(refresh, spark, lakehouse), promoting])
def test_a_reader_has_all_old_rows_until_the_commit_and_then_all_new_ones(
    without_spark, lakehouse, address, monkeypatch, prepared
):
    old, replace_rows = by_polars(address), prepared(without_spark, lakehouse)
    seen = []

    def look(point):
        seen.append((point, {name: read(address) for name, read in READERS.items()}))

    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", look)
        replace_rows()
    new = by_polars(address)
    assert new != old
    # The other table, that of late events, is replaced before this one.
    first = max(at for at, (point, _) in enumerate(seen) if point == "going live: table replaced")
    for at, (point, found) in enumerate(seen):
        assert found == dict.fromkeys(READERS, old if at < first else new), point
    assert lakehouse.table("windows") == address
    before = DeltaTable(str(address)).version() - 1
    assert sorted(pl.read_delta(str(address), version=before).rows()) == old, "the old version stays in the history"


def test_a_run_of_a_replaced_generation_that_wakes_up_late_commits_nothing(without_spark, lake, address):
    replaced = lake.live("windows")
    refresh(without_spark, lake.lakehouse)
    new = by_polars(address)
    row = pl.DataFrame({"user": ["eve"], "window": [START], "clicks": [1]})
    file = write_data_file(row.cast({"window": pl.Datetime("us", "UTC")}), address, WINDOW_TOTAL)
    append_files(address, [file], f"{replaced.identity}/windows", 99)
    assert by_polars(address) == new


def test_new_columns_come_in_the_commit_of_the_rows_and_a_table_that_is_no_more_goes(without_spark, lakehouse, land):
    land(("ann", 0), ("bob", 1))
    run_job(lakehouse, totals(), runners=without_spark)
    assert {"totals", "changes", "late.totals"} <= lakehouse.tables().keys()
    step = with_note(totals().step)
    job = totals(output=NOTED, more=(), step=lambda *given: dataclasses.replace(step(*given), side={}))
    refresh(without_spark, lakehouse, job)
    table = DeltaTable(str(lakehouse.table("totals")))
    assert sorted(pl.read_delta(table).rows()) == [("ann", 1, "new"), ("bob", 1, "new")]
    table.load_as_version(table.version() - 1)
    assert pl.read_delta(table).columns == ["user", "clicks"]
    assert "changes" not in lakehouse.tables()


def test_a_table_whose_log_is_damaged_is_made_anew_by_a_refresh(without_spark, lakehouse, address):
    old = by_polars(address)
    max(path for path in (address / "_delta_log").iterdir() if path.name.endswith(".json")).write_bytes(b"{")
    refresh(without_spark, lakehouse, windows())
    assert {user for user, *_ in old} <= {user for user, *_ in by_polars(address)}


def test_a_job_whose_table_has_the_name_of_another_job_s_is_refused(without_spark, lakehouse, address):
    old = by_polars(address)
    other = totals(name="others", output=TOTAL, more=(Append(TOTAL, name="windows"),))
    with pytest.raises(keyfold.Misconfigured, match="job others and job windows both have a table windows"):
        run_job(lakehouse, other, runners=without_spark)
    assert by_polars(address) == old
