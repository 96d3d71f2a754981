"""A branch becomes the live generation."""

from datetime import timedelta

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental, Replay
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse.reading import data_file_paths
from keyfold.state.changing.promoting import promote
from tests.keyfold.keyed.toy_jobs import windows
from tests.lake import Lake


def patient():
    """The job with a longer delay: less is late."""
    return windows(delay=timedelta(minutes=30))


def test_a_promoted_branch_is_live_and_goes_on_from_what_it_has_read(lakehouse, without_spark, land, rows, minutes):
    land(("ann", 1), ("bob", 25))
    run_job(lakehouse, windows(), runners=without_spark)
    land(("ann", 2))
    run_job(lakehouse, windows(), runners=without_spark)
    assert len(rows("late.windows")) == 1
    run_job(lakehouse, patient(), Replay("patient"), runners=without_spark)
    land(("cat", 26))
    promoted = promote(lakehouse, "windows", "patient")
    assert promoted.name == "generation-0002" == Lake(lakehouse).live("windows").name
    assert not (lakehouse.job("windows") / "branches" / "patient").exists()
    summary = run_job(lakehouse, patient(), Incremental(advance_to=minutes(90)), runners=without_spark)
    assert summary.counts.events == 1
    assert rows("windows") == [("ann", minutes(0), 2), ("bob", minutes(20), 1), ("cat", minutes(20), 1)]
    assert rows("late.windows") == []


def test_a_branch_of_part_of_history_is_not_promoted(lakehouse, without_spark, land, minutes):
    land(("ann", 1), ("bob", 25))
    run_job(lakehouse, windows(), runners=without_spark)
    run_job(lakehouse, windows(), Replay("part", since=minutes(10)), runners=without_spark)
    with pytest.raises(KeyfoldError, match=r"holds events since .* only, and a live generation needs all events"):
        promote(lakehouse, "windows", "part")
    assert Lake(lakehouse).live("windows").name == "generation-0001"


@pytest.mark.parametrize("branch", ["../generation-0001", "a/b", "..", "/etc", ""])
def test_a_branch_s_name_leads_nowhere_else(lakehouse, land, branch):
    land(("ann", 1))
    with pytest.raises(KeyfoldError, match="a name has lower-case letters"):
        promote(lakehouse, "windows", branch)


def test_a_branch_whose_promotion_was_killed_outlives_a_new_generation_that_fails(
    lakehouse, without_spark, land, rows, minutes, cut_power
):
    land(("ann", 1), ("bob", 25))
    run_job(lakehouse, windows(), runners=without_spark)
    run_job(lakehouse, patient(), Replay("patient"), runners=without_spark)
    assert cut_power("promote: renamed", lambda: promote(lakehouse, "windows", "patient"))
    assert cut_power("work: after", lambda: run_job(lakehouse, windows(), FullRefresh(), runners=without_spark))
    assert promote(lakehouse, "windows", "patient").name == "generation-0002"
    run_job(lakehouse, patient(), Incremental(advance_to=minutes(90)), runners=without_spark)
    assert rows("windows") == [("ann", minutes(0), 1), ("bob", minutes(20), 1)]


def test_a_branch_that_has_yet_to_read_files_that_are_gone_is_not_promoted(lakehouse, without_spark, land):
    land(("ann", 1))
    run_job(lakehouse, windows(), runners=without_spark)
    run_job(lakehouse, patient(), Replay("patient"), runners=without_spark)
    read = set(data_file_paths(lakehouse.events("clicks")))
    land(("cat", 26))
    (new,) = set(data_file_paths(lakehouse.events("clicks"))) - read
    new.unlink()
    with pytest.raises(KeyfoldError, match=rf"has yet to read files of events.clicks that are gone \({new.name}\)"):
        promote(lakehouse, "windows", "patient")
    assert Lake(lakehouse).live("windows").name == "generation-0001"
