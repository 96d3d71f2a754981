"""A run that dies at any named point leaves tables as an unbroken run's once it is run again.

Processes that are killed there are `tests/chaos/test_kills.py`'s, and full disks `test_disk.py`'s.
"""

from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.execution import operator
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.job.inputs import STEP_DECIDES
from keyfold.keyed.job.step import Step
from keyfold.keyed.job.tables import Append
from keyfold.keyed.job_run import RunOptions
from keyfold.keyed.state_parts.part_rows import SIZES, Sizes
from keyfold.lakehouse import fail_points
from tests.keyfold.keyed.toy_jobs import WINDOW_TOTAL, totals, windows, windows_step
from tests.power_cuts import OF_A_BATCH
from tests.shop import START

OF_A_GENERATION = [point for point in fail_points.POINTS if point.startswith(("generation", "going live"))]
DECIDED = OF_A_GENERATION[OF_A_GENERATION.index("generation: live") :]
FILE_BY_FILE = RunOptions(max_bytes_per_batch=1)


def as_unbroken(lake):
    assert lake.rows("totals") == [("ann", 2), ("bob", 1), ("eve", 1)]
    assert lake.rows("changes") == [("ann", 1), ("ann", 1), ("bob", 1), ("eve", 1)]
    done = lake.done("totals")
    assert (done.total_events, done.total_rows) == (4, {"totals": 4, "changes": 4, "late.totals": 0})


@pytest.mark.parametrize(
    "sizes", [SIZES, Sizes(rows_a_group=1, rows_a_segment=2, inline_bytes=0, small_bytes=0)], ids=["", "tiny"]
)
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("point", OF_A_BATCH)
def test_a_power_cut_at_any_point_of_a_batch_loses_and_doubles_nothing(
    lake, cut_power, monkeypatch, point, is_first, sizes
):
    monkeypatch.setattr(operator, "SIZES", sizes)
    lake.click(("ann", 0), ("bob", 1))
    if not is_first:
        lake.run(totals())
    lake.click(("ann", 2))
    lake.click(("eve", 3))
    came_to_it = cut_power(point, lambda: lake.run(totals(), options=FILE_BY_FILE))
    assert came_to_it or is_first
    summary = lake.run(totals(), options=FILE_BY_FILE)
    as_unbroken(lake)
    assert summary.totals.events == 4
    assert lake.run(totals()).counts.events == 0


def with_half(state, events, clock):
    made = windows_step(state, events, clock)
    return Step(state=made.state, output=made.output.with_columns(half=pl.col("clicks") / 2))


CHANGES = {
    "another step": {"step": lambda state, events, clock: windows_step(state, events.sort("at"), clock)},
    "another delay": {"delay": "9m"},
    "another column": {"step": with_half, "output": WINDOW_TOTAL.append(pa.field("half", pa.float64()))},
    "another table": {"more": (Append(WINDOW_TOTAL, name="more"),)},
}


@pytest.mark.parametrize("point", ["plan: after", "done: after"])
@pytest.mark.parametrize("change", CHANGES)
def test_code_that_was_changed_while_a_run_had_broken_off_goes_on_or_says_what_to_do(lake, cut_power, point, change):
    changed = windows(**CHANGES[change])
    lake.click(("ann", 1), ("bob", 2))
    lake.run(windows())
    lake.click(("ann", 3), ("ann", 40))
    assert cut_power(point, lambda: lake.run(windows()))
    if change != "another step":
        with pytest.raises(KeyfoldError, match="--full-refresh"):
            lake.run(changed)
        lake.run(changed, FullRefresh())
    lake.run(changed, Incremental(START + timedelta(hours=2)))
    late = START + timedelta(minutes=40)
    assert lake.rows("windows", "user", "window", "clicks") == [("ann", START, 2), ("ann", late, 1), ("bob", START, 1)]


@pytest.mark.parametrize("point", OF_A_GENERATION)
def test_a_power_cut_at_any_point_of_a_full_refresh_leaves_the_old_tables_or_the_new_ones(
    lake, lakehouse, cut_power, point, minutes
):
    def doubled(state, events, clock):
        return windows_step(state, events.with_columns(clicks=pl.col("clicks") * 2), clock)

    lake.click(("ann", 0), ("bob", 60))
    lake.run(windows())
    assert cut_power(point, lambda: lake.run(windows(step=doubled), FullRefresh()))
    step = doubled if point in DECIDED else windows_step
    lake.run(windows(step=step))
    assert lake.rows("windows") == [("ann", START, 2 if point in DECIDED else 1)]
    lake.run(windows(step=doubled), FullRefresh())
    assert lake.rows("windows") == [("ann", START, 2)]
    # The live one, its forerunner, and no half-made one.
    names = sorted(folder.name for folder in lakehouse.job("windows").glob("generation-*"))
    assert all((lakehouse.job("windows") / name / "generation.json").exists() for name in names)
    assert len(names) == (3 if point in DECIDED else 2)


@pytest.mark.parametrize("point", [point for point in OF_A_GENERATION if point.startswith("generation")])
def test_a_power_cut_while_the_first_generation_is_born_stops_no_later_run(lake, cut_power, point):
    lake.click(("ann", 0), ("bob", 60))
    assert cut_power(point, lambda: lake.run(windows()))
    lake.run(windows())
    assert lake.rows("windows") == [("ann", START, 1)]


def test_a_service_that_answers_otherwise_after_a_crash_changes_no_row(lake, cut_power, tmp_path):
    log = tmp_path / "asked"
    log.touch()

    def asked():
        return log.read_text().split()

    def ask(state, events, clock):
        """Says of each user what the world outside said, which is something else each time it is asked."""
        users = sorted(set(events["user"].to_list()))
        for user in users:
            if clock.responses.get(user) is None:
                # Appended, and where it then stands last, since two tasks may ask at the same time.
                with log.open("a") as file:
                    file.write(f" {user}")
                clock.responses.keep(user, str(max(at for at, one in enumerate(asked(), 1) if one == user)))
        told = pl.DataFrame(
            {"user": users, "clicks": [int(clock.responses.get(user) or 0) for user in users]},
            schema={"user": pl.String, "clicks": pl.Int64},
        )
        return Step(state=state.clear(), output=told, side={"changes": told})

    lake.click(("ann", 0), ("bob", 1), ("eve", 2))
    job = totals(step=ask, final_at=STEP_DECIDES)
    for point in ("work: after", "done: after", "commit: one table"):
        assert cut_power(point, lambda: lake.run(job))
    lake.run(job)
    told = sorted((user, asked().index(user) + 1) for user in ("ann", "bob", "eve"))
    assert lake.rows("totals") == lake.rows("changes") == told
    assert len(asked()) == 3
    lake.click(("ann", 3))
    lake.run(job)
    assert len(asked()) == 4
