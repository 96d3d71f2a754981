"""What a change means, and a move that takes state along."""

from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.step import Step
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.runner import run_job
from keyfold.state.changing.moving import move, plan_change
from keyfold.state.changing.pruning import prune
from tests.keyfold.keyed.toy_jobs import TIME, WINDOW, WINDOW_TOTAL, windows, windows_step
from tests.lake import Lake


def live_name(lakehouse):
    live = Lake(lakehouse).live("windows")
    return live.name


ADDED = pa.schema([*WINDOW, ("source", pa.string())])
RENAMED = pa.schema([("user", pa.string()), ("window", TIME), ("count", pa.int64()), ("deadline", TIME)])


def renamed_step(state, events, clock):
    """As `windows_step`, over state that calls its clicks `count`."""
    step = windows_step(state.rename({"count": "clicks"}), events, clock)
    return Step(state=step.state.rename({"clicks": "count"}), output=step.output)


def renamed(**changes):
    to_count = {1: lambda rows: rows.rename({"clicks": "count"})}
    settings = {"state": RENAMED, "step": renamed_step, "state_events": pl.col("count").sum(), "schema_version": 2}
    return windows(**{**settings, "migrations": to_count, **changes})


@pytest.mark.parametrize(
    ("changed", "verdict", "why"),
    [
        ({}, "free", None),
        ({"key_groups": 8}, "move", "divided into"),
        ({"watermark_delay": timedelta(minutes=1)}, "move", "from here on"),
        ({"parameters": {"size": 2}}, "refresh", "made with it"),
        ({"parameters": {"size": 2}, "movable_parameters": frozenset({"size"})}, "move", "from here on"),
        ({"parameters": {"size": 2}, "free_parameters": frozenset({"size"})}, "free", "no state"),
        ({"state": ADDED}, "move", "new: source"),
        ({"state": RENAMED}, "refresh", "clicks is gone; raise schema_version"),
        ({"state": RENAMED, "schema_version": 2}, "refresh", "no migration of its state from version 1"),
        ({"schema_version": 2, "migrations": {1: lambda rows: rows}}, "move", "from version 1 to 2"),
        ({"output": pa.schema([*WINDOW_TOTAL, ("more", pa.int64())])}, "move", "new: more, empty in existing rows"),
        ({"output": pa.schema([WINDOW_TOTAL.field("user")])}, "refresh", "clicks is gone, window is gone"),
        ({"output_mode": "upsert", "output_key": ()}, "refresh", "another mode or key"),
        ({"side_outputs": (OutputTable("more", WINDOW_TOTAL),)}, "move", "more begins empty"),
        ({"step_decides_late": True}, "refresh", "depends on it"),
    ],
)
def test_a_change_is_free_a_move_or_a_refresh(lakehouse, state_without_spark, land, changed, verdict, why):
    land(("ann", 1), ("ann", 22))
    run_job(state_without_spark, lakehouse, windows())
    if "output_mode" in changed:
        strict = pa.schema([WINDOW_TOTAL.field(0).with_nullable(False), *list(WINDOW_TOTAL)[1:]])
        changed = {"output_mode": "upsert", "output_key": ("user",), "output": strict}
    plan = plan_change(lakehouse, windows(**changed))
    assert plan.verdict == verdict
    assert plan.events == 2
    assert why is None or why in "; ".join(change.why for change in plan.changes)


def test_a_job_that_never_ran_is_free_to_be_anything(lakehouse, state_without_spark, land):
    land(("ann", 1))
    assert plan_change(lakehouse, windows()).generation is None


@pytest.mark.parametrize(
    "job", [windows(key_groups=7), windows(state=ADDED, step=None), renamed()], ids=["groups", "column", "version"]
)
def test_a_moved_job_goes_on_as_if_it_had_never_stopped(lakehouse, state_without_spark, land, rows, minutes, job):
    if job.step is None:
        job = windows(state=ADDED, step=lambda state, events, clock: kept_source(windows_step, state, events, clock))
    spark = state_without_spark
    land(("ann", 1), ("bob", 2), ("cat", 12), ("ann", 13))
    run_job(spark, lakehouse, windows())
    land(("late", 1))
    run_job(spark, lakehouse, windows())
    before = rows("windows"), rows("late.windows")
    with pytest.raises(KeyfoldError, match="was born with"):
        run_job(spark, lakehouse, job)
    moved = move(spark, lakehouse, job)
    assert moved.generation.name == "generation-0002" == live_name(lakehouse)
    assert (rows("windows"), rows("late.windows")) == before
    assert moved.table_rows == {"windows": len(before[0]), "late.windows": 1}
    land(("ann", 14), ("dan", 31))
    summary = run_job(spark, lakehouse, job, Incremental(advance_to=minutes(100)))
    assert rows("windows") == [
        ("ann", minutes(0), 1),
        ("ann", minutes(10), 2),
        ("bob", minutes(0), 1),
        ("cat", minutes(10), 1),
        ("dan", minutes(30), 1),
    ]
    assert (summary.totals.events, summary.totals.rows["windows"], summary.totals.open_events) == (7, 5, 0)


def kept_source(step, state, events, clock):
    answer = step(state.drop("source"), events, clock)
    return Step(state=answer.state.with_columns(source=pl.lit(None, pl.String)), output=answer.output)


def test_a_move_that_needs_a_refresh_says_so_and_changes_nothing(lakehouse, state_without_spark, land):
    land(("ann", 1))
    run_job(state_without_spark, lakehouse, windows())
    with pytest.raises(KeyfoldError, match=r"step_decides_late: .* `keyfold run windows --full-refresh`"):
        move(state_without_spark, lakehouse, windows(step_decides_late=True))
    with pytest.raises(KeyfoldError, match=r"no setting of .* has changed"):
        move(state_without_spark, lakehouse, windows())
    assert live_name(lakehouse) == "generation-0001"


def test_the_old_generation_stays_until_it_is_pruned_and_the_new_one_keeps_its_rows(
    lakehouse, state_without_spark, land, rows, minutes
):
    land(("ann", 1), ("bob", 30))
    run_job(state_without_spark, lakehouse, windows())
    move(state_without_spark, lakehouse, windows(key_groups=9))
    names = [one.name for one in prune(lakehouse, "windows", dry_run=True)]
    assert names == ["generation-0001"] == [one.name for one in prune(lakehouse, "windows")]
    assert not (lakehouse.job("windows") / "generation-0001").exists()
    assert rows("windows") == [("ann", minutes(0), 1)]
    assert prune(lakehouse, "windows") == []
