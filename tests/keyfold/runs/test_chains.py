"""A job and those that read its tables, made anew together: at every moment all of them are old, or all are new."""

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest

import keyfold
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental, Replay
from keyfold.runs.chains import consumers_of, promote_with_consumers, refresh_with_consumers
from tests.chained_jobs import DAILY, HOURLY, OF_CLICKS, Chain, adding_up, counting
from tests.lake import Lake
from tests.shop import NOON

WEEKLY = adding_up("weekly", DAILY, "1w", timedelta(days=1))
OTHER = counting("other", OF_CLICKS, "1h", pl.len())
CHAIN = (HOURLY, DAILY, WEEKLY)
END = NOON + timedelta(days=40)
MIDNIGHT = NOON.replace(hour=0)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """Clicks of one day, counted; and one that came late for its hour, and is in time in a history that is read anew."""
    site = Chain(tmp_path_factory.mktemp("counted") / "home")
    site.click(("ann", 0), ("bob", 70), ("ann", 200))
    for job in CHAIN:
        site.run(job)
    site.click(("bob", 71))
    for job in CHAIN:
        site.run(job)
    return site


@pytest.fixture
def site(counted, tmp_path):
    return counted.copied(tmp_path / "home", counted.spark)


def live(site):
    return [live_generation_name(site.lakehouse, job.name) for job in CHAIN]


def days(site):
    """What the chain comes to."""
    for job in CHAIN:
        site.run(job, Incremental(END) if job is HOURLY else None)
    return site.table("daily")


OLD, NEW = ["generation-0001"] * 3, ["generation-0002"] * 3
OLD_DAYS = [("ann", MIDNIGHT, 2), ("bob", MIDNIGHT, 1)]
NEW_DAYS = [("ann", MIDNIGHT, 2), ("bob", MIDNIGHT, 2)]
MONDAY = MIDNIGHT - timedelta(days=3)


def refresh(site):
    return refresh_with_consumers(site.lakehouse, HOURLY, [DAILY, WEEKLY], FullRefresh(), runners=site.spark)


def test_consumers_are_found_in_the_order_in_which_they_read_each_other(site):
    templates = {job.name: job for job in (WEEKLY, OTHER, DAILY, HOURLY)}
    assert [job.name for job in consumers_of(site.lakehouse, "hourly", templates)] == ["daily", "weekly"]
    assert consumers_of(site.lakehouse, "weekly", templates) == []


@pytest.mark.parametrize(
    ("point", "count", "is_new"),
    [
        ("generation: created", 2, False),
        ("done: after", 2, False),
        ("generation: before it goes live", 1, False),
        ("generation: live", 1, True),
        ("going live: files linked", 1, True),
        ("going live: table replaced", 1, True),
        ("going live: table replaced", 3, True),
        ("going live: one job", 1, True),
        ("going live: one job", 3, True),
    ],
)
def test_a_cut_of_the_power_leaves_all_old_or_all_new(site, cut_power, point, count, is_new):
    assert cut_power(point, lambda: refresh(site), count)
    assert live(site) == (NEW if is_new else OLD), "before anything is started again"
    assert days(site) == (NEW_DAYS if is_new else OLD_DAYS)
    assert [Lake(site.lakehouse).live(job.name).ids for job in CHAIN] == [{}] * 3, "all tables are at their addresses"
    for job in CHAIN:
        assert_nothing_lost(site.lakehouse, job)
    assert [(run.job, run.generation) for run in refresh(site)] == [
        (job.name, live_name) for job, live_name in zip(CHAIN, live(site), strict=True)
    ]
    assert days(site) == NEW_DAYS
    assert site.table("weekly") == [("ann", MONDAY, 2), ("bob", MONDAY, 2)]


@pytest.mark.parametrize(
    ("point", "count"),
    [
        ("promote: renamed", 1),
        ("done: after", 1),
        ("generation: live", 1),
        ("going live: table replaced", 1),
        ("going live: one job", 1),
        ("going live: one job", 3),
    ],
)
def test_a_promotion_that_was_cut_off_is_finished_by_the_same_call(site, cut_power, point, count):
    def promote():
        return promote_with_consumers(site.lakehouse, "hourly", "patient", [DAILY, WEEKLY], runners=site.spark)[0].name

    site.run(HOURLY, Replay("patient"))
    assert cut_power(point, promote, count)
    assert promote() == "generation-0002"
    assert promote() == "generation-0002"
    assert days(site) == NEW_DAYS


def test_a_consumer_that_runs_holds_the_refresh_off_before_anything_is_made(site):
    with site.lakehouse.job("weekly").exclusive("job weekly"), pytest.raises(keyfold.Locked, match="job weekly"):
        refresh(site)
    assert live(site) == OLD


def test_a_consumer_that_fails_leaves_all_as_it_was(site):
    def fails(state, events, clock):
        raise ValueError("no such day")

    with pytest.raises(keyfold.StepFailed, match="no such day"):
        refresh_with_consumers(site.lakehouse, HOURLY, [replace(DAILY, step=fails), WEEKLY], runners=site.spark)
    assert live(site) == OLD
    assert days(site) == OLD_DAYS
