"""What a change means, and a move that takes state along."""

import polars as pl
import pyarrow as pa
import pytest
from pydantic import BaseModel

from keyfold import parameter
from keyfold.errors import KeyfoldError
from keyfold.keyed.job.inputs import STEP_DECIDES
from keyfold.keyed.job.tables import Append
from keyfold.keyed.job_run import run_job
from keyfold.state.changing.moving import move, plan_change
from keyfold.state.changing.promoting import prune
from keyfold.stream import TIMESTAMP
from tests.keyfold.keyed.toy_jobs import WINDOW, WINDOW_TOTAL, windows
from tests.lake import Lake

ADDED = pa.schema([*WINDOW, ("source", pa.string())])


class Sized(BaseModel):
    size: int = parameter(2, change="migrate")


class Free(Sized):
    size: int = parameter(2, change="free")


RENAMED = pa.schema([("user", pa.string()), ("window", TIMESTAMP), ("count", pa.int64()), ("deadline", TIMESTAMP)])


@pytest.mark.parametrize(
    ("changed", "verdict", "why"),
    [
        ({}, "free", None),
        ({"key_groups": 8}, "move", "divided into"),
        ({"delay": "1m"}, "move", "from here on"),
        ({"parameters": {"size": 2}}, "refresh", "made with it"),
        ({"parameters": Sized()}, "move", "from here on"),
        ({"parameters": Free()}, "free", "no state"),
        ({"state": ADDED}, "move", "new: source"),
        ({"state": RENAMED, "state_events": pl.lit(0)}, "refresh", "clicks is gone; raise the version of State"),
        (
            {"state": RENAMED, "version": 2, "state_events": pl.lit(0)},
            "refresh",
            "no migration of its state from version 1",
        ),
        ({"version": 2, "migrations": {1: lambda rows: rows}}, "move", "from version 1 to 2"),
        ({"output": pa.schema([*WINDOW_TOTAL, ("more", pa.int64())])}, "move", "new: more, empty in existing rows"),
        (
            {"output": pa.schema([WINDOW_TOTAL.field("user"), WINDOW_TOTAL.field("clicks")])},
            "move",
            "window is left out",
        ),
        (
            {"output": pa.schema([WINDOW_TOTAL.field("user").with_nullable(False), *list(WINDOW_TOTAL)[1:]])},
            "refresh",
            "user may not be empty any more",
        ),
        ({"upsert_by": "user"}, "refresh", "another mode or key"),
        ({"more": (Append(WINDOW_TOTAL, name="more"),)}, "move", "it begins empty"),
        ({"final_at": STEP_DECIDES}, "refresh", "it is read in another way"),
    ],
)
def test_a_change_is_free_a_move_or_a_refresh(lakehouse, without_spark, land, changed, verdict, why):
    land(("ann", 1), ("ann", 22))
    run_job(lakehouse, windows(), runners=without_spark)
    if "upsert_by" in changed:
        strict = pa.schema([WINDOW_TOTAL.field(0).with_nullable(False), *list(WINDOW_TOTAL)[1:]])
        changed = {**changed, "output": strict}
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
    with pytest.raises(KeyfoldError, match=r"input clicks: final_at: .* `keyfold run windows --full-refresh`"):
        move(lakehouse, windows(final_at=STEP_DECIDES), yes=True, runners=without_spark)
    with pytest.raises(KeyfoldError, match=r"no setting of .* has changed"):
        move(lakehouse, windows(), yes=True, runners=without_spark)
    assert Lake(lakehouse).live("windows").name == "generation-0001"


def test_the_old_generation_stays_until_it_is_pruned_and_the_new_one_keeps_its_rows(
    lakehouse, without_spark, land, rows, minutes
):
    land(("ann", 1), ("bob", 30))
    run_job(lakehouse, windows(), runners=without_spark)
    move(lakehouse, windows(key_groups=9), yes=True, runners=without_spark)
    (first,) = Lake(lakehouse).live("windows").journal.history(9)
    assert first.read.startswith("move of generation-0001, batch 0: key_groups: 1 row of state; watermark at ")
    assert prune(lakehouse, "windows") == ["generation-0001"] == prune(lakehouse, "windows", yes=True)
    assert not (lakehouse.job("windows") / "generation-0001").exists()
    assert rows("windows") == [("ann", minutes(0), 1)]
    assert prune(lakehouse, "windows", yes=True) == []
