"""Checks of jobs: what they find, and that one step evaluates all of an asset's."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from keyfold.dagster.assets.checks import ERROR, Check, Finding, asset_checks
from keyfold.dagster.assets.job_checks import find_changes, find_late, find_staleness, job_checks
from keyfold.dagster.assets.shown import JobAssets
from keyfold.dagster.resources import Keyfold
from keyfold.errors import KeyfoldError, NotFound
from keyfold.keyed.generation.declaration import declaration_of
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from tests.keyfold.keyed.toy_jobs import windows, windows_step
from tests.made_generations import NOW, plan_of, put_done, put_generation

JOB = RIDE_SUMMARIES.name
WARN_ONLY = ("few_events_are_late", "watermark_keeps_up", "live_generation_is_of_this_code")


def batches(lakehouse: Lakehouse, *records: tuple[int, int, int], first: int = 0) -> None:
    """Records of batches of (events, late, open events after it)."""
    generation = put_generation(lakehouse, JOB)
    for number, (events, late, still_open) in enumerate(records, first):
        put_done(generation, number, events=events, rows={JOB: 1, f"late.{JOB}": late}, open_events=still_open)


def test_without_events_there_is_nothing_to_find(lakehouse):
    batches(lakehouse, (0, 0, 0))
    assert find_late(lakehouse, RIDE_SUMMARIES, 0.05) == Finding(True, "no events in the last batches")


@pytest.mark.parametrize(
    ("late", "most", "passed"), [(4, 0.05, True), (5, 0.05, True), (6, 0.05, False), (6, 0.1, True)]
)
def test_many_late_events_are_found_above_the_share_that_the_job_sets(lakehouse, late, most, passed):
    batches(lakehouse, (100, late, 0))
    finding = find_late(lakehouse, RIDE_SUMMARIES, most)
    assert finding.passed is passed
    text = f"{late} of 100 events of the last 1 batches were late. See `keyfold show late.{JOB}`"
    assert finding.description == text


def test_event_time_far_behind_the_clock_is_found(lakehouse):
    day = timedelta(hours=26)
    assert find_staleness(lakehouse, JOB, day, NOW) == Finding(True, "no events yet")
    put_done(put_generation(lakehouse, JOB), 0, events=1, watermark=NOW - day, finished_at=NOW)
    finding = find_staleness(lakehouse, JOB, day, NOW)
    assert finding.passed
    assert finding.description.endswith("UTC, 1 day, 2:00:00 behind the clock")
    assert not find_staleness(lakehouse, JOB, timedelta(hours=25), NOW).passed
    finding = find_staleness(lakehouse, JOB, day, NOW + timedelta(minutes=6))
    assert not finding.passed
    assert finding.description.startswith("stale: the watermark is 1 day, 2:06:00 behind the clock")


def test_a_job_that_nothing_runs_and_one_whose_run_ended_within_a_batch_are_found(lakehouse):
    generation, day = put_generation(lakehouse, JOB), timedelta(days=1)
    put_done(generation, 0, events=1, watermark=NOW, finished_at=NOW - timedelta(minutes=1))
    assert find_staleness(lakehouse, JOB, timedelta(minutes=2), NOW).passed
    assert find_staleness(lakehouse, JOB, timedelta(minutes=2), NOW + timedelta(minutes=2)).description.startswith(
        "stale: the last run was 0:03:00 ago: does anything start `keyfold run"
    )
    generation.journal.write_plans([plan_of(1, "events.ride_points", 3, "a").model_copy(update={"planned_at": NOW})])
    finding = find_staleness(lakehouse, JOB, day, NOW + timedelta(minutes=1))
    assert not finding.passed
    assert finding.description.startswith("interrupted: a run ended within a batch planned 0:01:00 ago: `keyfold run")


def test_what_no_check_can_compare_with_is_refused_where_it_is_declared():
    with pytest.raises(KeyfoldError, match=r"ride_summaries: most_late is -1: give a share from 0 to 1"):
        JobAssets(RIDE_SUMMARIES, most_late=-1)
    with pytest.raises(KeyfoldError, match=r"JobAssets of ride_summaries: stale_after"):
        JobAssets(RIDE_SUMMARIES, stale_after="soon")


def test_a_job_that_differs_from_its_live_generation_is_found_with_what_was_changed(lake, lakehouse):
    assert find_changes(lakehouse, windows()) == Finding(True, "the job has not run yet")
    lake.click(("ann", 0))
    lake.run(windows())
    assert find_changes(lakehouse, windows()) == Finding(True, "generation-0001 is of this code")
    finding = find_changes(lakehouse, windows(delay="9m"))
    passed, text = finding.passed, finding.description
    assert (passed, "input clicks: delay: 5m → 9m (a move: " in text, "`keyfold plan windows" in text) == (
        False,
        True,
        True,
    )

    def step(state, events, clock):
        return windows_step(state, events, clock)

    other = windows(step=step)
    assert not find_changes(lakehouse, other).passed
    lake.click(("ann", 1))
    lake.run(other)
    finding = find_changes(lakehouse, other)
    passed, text = finding.passed, finding.description
    assert (passed, "generation-0001 is of this code; since batch 1: step: code changed" in text) == (True, True)


def test_the_checks_of_a_job_run_in_dagster_and_only_warn(lakehouse):
    now = datetime.now(UTC)
    declaration = declaration_of(RIDE_SUMMARIES).model_dump(mode="json")
    generation = put_generation(lakehouse, JOB, declaration=declaration, parameters=dict(RIDE_SUMMARIES.parameters))
    put_done(generation, 0, events=100, rows={JOB: 1, f"late.{JOB}": 50}, watermark=now, finished_at=now)
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [dg.AssetSpec(JOB), job_checks(JobAssets(RIDE_SUMMARIES))],
            instance=instance,
            resources={"keyfold": Keyfold(lakehouse, Runners("local"))},
            selection=dg.AssetSelection.checks(*(dg.AssetCheckKey(dg.AssetKey(JOB), name) for name in WARN_ONLY)),
        )
    found = {check.check_name: check for check in result.get_asset_check_evaluations()}
    assert {name for name, check in found.items() if not check.passed} == {"few_events_are_late"}
    assert {check.severity for check in found.values()} == {dg.AssetCheckSeverity.WARN}


def test_one_step_evaluates_all_checks_and_fails_after_them_if_one_cannot_be_evaluated(lakehouse):
    def missing(_: Lakehouse) -> Finding:
        raise NotFound("there is no table")

    key = dg.AssetKey("table")
    checks = [
        Check("first", "The first.", missing, blocking=True),
        Check("second", "The second.", lambda _: Finding(False, "two rows are bad", {"rows": 2}, ERROR), blocking=True),
        Check("third", "The third.", lambda _: Finding(True, "all is well")),
    ]
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [dg.AssetSpec(key), asset_checks(key, checks, pool="job_table")],
            instance=instance,
            resources={"keyfold": Keyfold(lakehouse, Runners("local"))},
            selection=dg.AssetSelection.checks_for_assets(key),
            raise_on_error=False,
        )
    evaluated = {check.check_name: check for check in result.get_asset_check_evaluations()}
    assert {name: check.passed for name, check in evaluated.items()} == {"second": False, "third": True}
    assert evaluated["second"].severity is ERROR
    (failed,) = result.get_step_failure_events()
    assert "there is no table" in str(failed.step_failure_data.error)
