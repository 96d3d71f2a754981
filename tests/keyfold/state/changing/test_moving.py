"""What a change means, and a move that takes state along."""

from datetime import timedelta

import pyarrow as pa
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.runner import run_job
from keyfold.state.changing.moving import move, plan_change
from keyfold.state.changing.promoting import prune
from tests.keyfold.keyed.toy_jobs import TIME, WINDOW, WINDOW_TOTAL, windows
from tests.lake import Lake

ADDED = pa.schema([*WINDOW, ("source", pa.string())])
RENAMED = pa.schema([("user", pa.string()), ("window", TIME), ("count", pa.int64()), ("deadline", TIME)])


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
def test_a_change_is_free_a_move_or_a_refresh(lakehouse, without_spark, land, changed, verdict, why):
    land(("ann", 1), ("ann", 22))
    run_job(lakehouse, windows(), runners=without_spark)
    if "output_mode" in changed:
        strict = pa.schema([WINDOW_TOTAL.field(0).with_nullable(False), *list(WINDOW_TOTAL)[1:]])
        changed = {"output_mode": "upsert", "output_key": ("user",), "output": strict}
    plan = plan_change(lakehouse, windows(**changed))
    assert plan.verdict == verdict
    assert plan.events == 2
    assert why is None or why in "; ".join(change.why for change in plan.changes)


def test_a_job_that_never_ran_is_free_to_be_anything(lakehouse, without_spark, land):
    land(("ann", 1))
    assert plan_change(lakehouse, windows()).generation is None


def test_a_move_that_needs_a_refresh_says_so_and_changes_nothing(lakehouse, without_spark, land):
    land(("ann", 1))
    run_job(lakehouse, windows(), runners=without_spark)
    with pytest.raises(KeyfoldError, match=r"step_decides_late: .* `keyfold run windows --full-refresh`"):
        move(lakehouse, windows(step_decides_late=True), runners=without_spark)
    with pytest.raises(KeyfoldError, match=r"no setting of .* has changed"):
        move(lakehouse, windows(), runners=without_spark)
    assert Lake(lakehouse).live("windows").name == "generation-0001"


def test_the_old_generation_stays_until_it_is_pruned_and_the_new_one_keeps_its_rows(
    lakehouse, without_spark, land, rows, minutes
):
    land(("ann", 1), ("bob", 30))
    run_job(lakehouse, windows(), runners=without_spark)
    move(lakehouse, windows(key_groups=9), runners=without_spark)
    names = [one.name for one in prune(lakehouse, "windows", dry_run=True)]
    assert names == ["generation-0001"] == [one.name for one in prune(lakehouse, "windows")]
    assert not (lakehouse.job("windows") / "generation-0001").exists()
    assert rows("windows") == [("ann", minutes(0), 1)]
    assert prune(lakehouse, "windows") == []
