"""States of older versions, kept as files in `states/`, and what a job's chain of migrations makes of them."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import Step
from keyfold.keyed.job_run import run_job
from keyfold.state.changing.migrating import migrate
from keyfold.state.changing.moving import move, plan_change
from keyfold.state.making.mapping import StateMapping, as_state
from keyfold.state.making.seeding import SeedSource, seed_job
from keyfold.state.making.sources import open_source
from keyfold.stream import TIMESTAMP
from tests.keyfold.keyed.toy_jobs import windows, windows_step
from tests.keyfold.state.local_state import frames_of_state
from tests.lake import Lake

STATES = Path(__file__).parent / "states"

SECOND = pa.schema([("user", pa.string()), ("window", TIMESTAMP), ("count", pa.int64()), ("deadline", TIMESTAMP)])
THIRD = pa.schema(
    [
        ("user", pa.string()),
        ("window", TIMESTAMP),
        ("count", pa.int64()),
        pa.field("ends", TIMESTAMP, nullable=False),
        ("note", pa.string()),
        ("deadline", TIMESTAMP),
    ]
)


def step(state, events, clock):
    """As `windows_step`, over state of the second or the third version."""
    more = [name for name in ("ends", "note") if name in state.columns]
    answer = windows_step(state.drop(more).rename({"count": "clicks"}), events, clock)
    kept = answer.state.rename({"clicks": "count"})
    if more:
        kept = kept.with_columns(ends="deadline", note=pl.lit(None, pl.String)).select(state.columns)
    return Step(state=kept, output=answer.output)


def count_renamed_and_empty_windows_dropped(rows):
    return rows.rename({"clicks": "count"}).filter(pl.col("count") > 0)


def end_said_by_itself(rows):
    return rows.with_columns(ends="deadline")


FIRST_JOB = windows()
SECOND_JOB = windows(
    state=SECOND,
    step=step,
    state_events=pl.col("count").sum(),
    version=2,
    migrations={1: count_renamed_and_empty_windows_dropped},
)
THIRD_JOB = replace(
    SECOND_JOB,
    state=State(
        THIRD,
        3,
        {1: count_renamed_and_empty_windows_dropped, 2: end_said_by_itself},
        events=pl.col("count").sum(),
    ),
)


def with_migrations(job, migrations):
    return replace(job, state=replace(job.state, migrations=migrations))


def kept(lakehouse, job):
    """The state that was kept as a file, of the version of a job."""
    source = open_source(lakehouse, str(STATES / f"windows-v{job.state.version}.jsonl"))
    return as_state(job, source, StateMapping()).collect()


def begin(spark, lakehouse, land, minutes, job):
    """A live generation that has the kept state of a job's version."""
    land(("eve", -60))
    seed = SeedSource(str(STATES / f"windows-v{job.state.version}.jsonl"), watermark=minutes(5), read_from="latest")
    seed_job(lakehouse, job, seed, yes=True, runners=spark)


@pytest.mark.parametrize("born", [FIRST_JOB, SECOND_JOB], ids=["of version 1", "of version 2"])
def test_an_old_state_goes_through_every_version_to_the_present_one(
    lakehouse, without_spark, land, rows, minutes, born
):
    spark = without_spark
    begin(spark, lakehouse, land, minutes, born)
    assert_frame_equal(
        migrate(THIRD_JOB, Lake(lakehouse).live("windows"))(kept(lakehouse, born)), kept(lakehouse, THIRD_JOB)
    )
    plan = plan_change(lakehouse, THIRD_JOB)
    assert plan.verdict == "move"
    assert f"from version {born.state.version} to 3" in "; ".join(change.why for change in plan.changes)
    with pytest.raises(KeyfoldError, match=r"version of state: \d → 3"):
        run_job(lakehouse, THIRD_JOB, runners=spark)

    moved = move(lakehouse, THIRD_JOB, yes=True, runners=spark)
    assert (moved.rows_before, moved.rows) == (kept(lakehouse, born).height, 3)
    state = pl.concat(frames_of_state(moved.generation, 0))
    assert_frame_equal(state, kept(lakehouse, THIRD_JOB), check_row_order=False)
    assert moved.generation.record.declaration.state.version == 3

    land(("bob", 12))
    summary = run_job(lakehouse, THIRD_JOB, Incremental(advance_to=minutes(60)), runners=spark)
    assert rows("windows") == [("ann", minutes(0), 2), ("ann", minutes(10), 1), ("bob", minutes(10), 5)]
    assert (summary.totals.events, summary.totals.open_events) == (8, 0)


def test_a_version_without_a_migration_is_told_and_nothing_is_moved(lakehouse, without_spark, land, minutes):
    begin(without_spark, lakehouse, land, minutes, FIRST_JOB)
    gap = with_migrations(THIRD_JOB, {1: count_renamed_and_empty_windows_dropped})
    assert plan_change(lakehouse, gap).verdict == "refresh"
    with pytest.raises(KeyfoldError, match="no migration of its state from version 2"):
        move(lakehouse, gap, yes=True, runners=without_spark)
    with pytest.raises(KeyfoldError, match="no migration of its state from version 2"):
        migrate(gap, Lake(lakehouse).live("windows"))
    begin(without_spark, lakehouse, land, minutes, THIRD_JOB)
    with pytest.raises(KeyfoldError, match="no migration of its state from version 3"):
        move(lakehouse, SECOND_JOB, yes=True, runners=without_spark)


def test_a_migration_that_gives_something_else_leaves_the_old_generation_live(
    lakehouse, without_spark, land, rows, minutes
):
    begin(without_spark, lakehouse, land, minutes, FIRST_JOB)
    before = Lake(lakehouse).live("windows").name
    wrong = with_migrations(SECOND_JOB, {1: lambda rows: rows.rename({"clicks": "count"}).cast({"count": pl.String})})
    why = (
        "windows, .*, batch 0: its rows cannot be converted to state of the changed job: .* count is String, not Int64"
    )
    with pytest.raises(KeyfoldError, match=why):
        move(lakehouse, wrong, yes=True, runners=without_spark)
    assert Lake(lakehouse).live("windows").name == before
    run_job(lakehouse, FIRST_JOB, Incremental(advance_to=minutes(60)), runners=without_spark)
    assert len(rows("windows")) == 4
