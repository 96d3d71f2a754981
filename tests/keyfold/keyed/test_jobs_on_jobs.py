"""Jobs on jobs: the append table of one job is an input of another."""

import shutil
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyfold
from keyfold import Damaged, Input, KeyedJob, Misconfigured, NotFound, Step, Stream
from keyfold.keyed.conservation import check_conservation
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.job.inputs import STEP_DECIDES
from keyfold.keyed.job.state import State
from keyfold.keyed.job.tables import Append, Upsert
from keyfold.lakehouse import fail_points
from tests.examples import examples
from tests.keyfold.keyed.test_crash_points import OF_A_BATCH
from tests.lake import Lake

TIME = pa.timestamp("us", tz="UTC")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
USER = pa.field("user", pa.string(), nullable=False)
CLICK = pa.schema([USER, pa.field("at", TIME, nullable=False)])
CLICKS = Stream("clicks", CLICK, event_time="at")
HOUR = pa.schema([USER, pa.field("hour", TIME, nullable=False), pa.field("clicks", pa.int64())])


def per_period(every):
    """A step that counts rows of each period once the watermark has passed its end."""

    def step(state, events, clock):
        time, counted = ("at", pl.lit(1, pl.Int64)) if "at" in events.columns else ("hour", pl.col("clicks"))
        new = events.select("user", hour=pl.col(time).dt.truncate(every), clicks=counted)
        known = pl.concat([state.drop("deadline"), new]).group_by("user", "hour").agg(pl.col("clicks").sum())
        known = known.with_columns(deadline=pl.col("hour").dt.offset_by(every))
        over = pl.col("deadline") <= clock.watermark
        return Step(state=known.filter(~over), output=known.filter(over).drop("deadline"))

    return step


def counting(name, source, every, events, *more):
    state = State(HOUR.append(pa.field("deadline", TIME)), events=events)
    source = replace(source, final_at=pl.col(source.at).dt.truncate(every).dt.offset_by(every))
    return KeyedJob(name, source, "user", state, per_period(every), [Append(HOUR, events=events), *more], key_groups=2)


OF_CLICKS = Input(CLICKS, "at", columns=CLICK, delay="5m")
HOURLY = counting("hourly", OF_CLICKS, "1h", pl.col("clicks").sum())
NO_EVENTS = pl.lit(0)


def adding_up(name, job, every, delay):
    """A job that adds up the rows of another one; their events are counted there."""

    return counting(name, Input(job.table(), "hour", columns=HOUR, delay=delay, conserved=False), every, NO_EVENTS)


# A row's hour begins up to an hour before the watermark that lets it be written.
DAILY = adding_up("daily", HOURLY, "1d", timedelta(hours=1))


class Site:
    """A lakehouse with clicks, a job on them, and a job on that."""

    def __init__(self, folder, spark=None):
        self.lake = Lake(folder, spark)
        self.lakehouse, self.spark = self.lake.lakehouse, self.lake.session

    def copied(self, folder, spark):
        """One like it in another folder."""
        shutil.copytree(str(self.lakehouse.home), folder)
        other = Site(folder, spark)
        other.lake.landed = self.lake.landed
        return other

    def click(self, *clicks):
        rows = {"user": [user for user, _ in clicks], "at": [NOON + at * MINUTE for _, at in clicks]}
        self.lake.land(CLICKS, pl.DataFrame(rows))

    def run(self, job, mode=None):
        return keyfold.run(self.lakehouse, job, mode or Incremental(), runners=self.spark)

    def table(self, name):
        return self.lake.rows(name, "user", "hour", "clicks")


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_event_time_goes_on_with_the_producer_also_where_it_writes_nothing(site):
    site.click(("ann", 0), ("ann", 61 + 5))
    site.run(HOURLY)
    assert site.table("hourly") == [("ann", NOON, 1)]
    site.run(DAILY)
    assert site.table("daily") == []
    # All time passes for the producer. It writes an hour of the same day, and nothing of the next.
    site.run(HOURLY, Incremental(NOON + timedelta(days=2)))
    site.run(DAILY)
    assert site.table("daily") == [("ann", NOON.replace(hour=0), 2)]


def test_a_producer_that_has_not_run_is_named(site):
    site.click(("ann", 0))
    with pytest.raises(NotFound, match=r"daily reads a table of job hourly, which has not run.*keyfold run hourly"):
        site.run(DAILY)


def test_the_third_of_a_chain_runs_where_the_second_has_had_no_batch_yet(site):
    weekly = adding_up("weekly", DAILY, "1w", timedelta(days=1))
    site.click(("ann", 0))
    for job in (HOURLY, DAILY, weekly):
        site.run(job)
    assert Lake(site.lakehouse).live("daily").journal.last_done() is None
    assert site.run(weekly).counts.events == 0
    for job in (HOURLY, DAILY, weekly):
        site.run(job, Incremental(NOON + timedelta(days=9)))
    assert [clicks for *_, clicks in site.table("weekly")] == [1]


@examples(15)
@given(
    st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.sampled_from(OF_A_BATCH), min_size=1, max_size=3, unique=True),
)
def test_a_consumer_that_runs_at_any_moment_of_its_producers_run_finds_no_row_late(
    tmp_path_factory, deliveries, moments
):
    site = Site(tmp_path_factory.mktemp("site"))
    site.click(("ann", 0))
    site.run(HOURLY)
    site.run(DAILY)
    is_consumed = False

    def consume(point):
        nonlocal is_consumed
        # Not at the consumer's own points.
        if point in moments and not is_consumed:
            is_consumed = True
            site.run(DAILY)
            is_consumed = False

    clicks = [0]
    for delivery in deliveries:
        # An hour and more after all others, so that none is late for the producer.
        clicks += (came := [max(clicks) + 61 + at for at in delivery[:1]] + [max(clicks) + 61 + max(delivery)])
        site.click(*(("ann", at) for at in came))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fail_points, "act", consume)
            site.run(HOURLY)
    for job in (HOURLY, DAILY):
        site.run(job, Incremental(NOON + timedelta(days=30)))
    expected = Counter((NOON + at * MINUTE).replace(hour=0, minute=0) for at in clicks)
    assert site.lake.rows("late.daily") == []
    assert {day: count for _, day, count in site.table("daily")} == expected


def test_a_producer_that_only_advances_its_watermark_is_not_idle(site):
    """Its consumer waits for it, also in a run that reads nothing."""
    other = Stream("others", CLICK, event_time="at")
    late = timedelta(minutes=1)
    how = {"delay": late, "final_at": STEP_DECIDES, "conserved": False}
    job = KeyedJob(
        "both",
        {
            "rows": Input(HOURLY.table(), "hour", columns=HOUR, idle_timeout=timedelta(microseconds=1), **how),
            "others": Input(other, "at", columns=CLICK, **how),
        },
        "user",
        State(pa.schema([USER]), events=NO_EVENTS),
        lambda state, events, clock: Step(state=state, output=state.clear()),
        Append(pa.schema([USER]), events=NO_EVENTS),
    )
    site.click(("ann", 0))
    site.lake.land(other, pl.DataFrame({"user": ["ann"], "at": [NOON + timedelta(days=30)]}))
    site.run(HOURLY, Incremental(NOON + timedelta(hours=2)))
    site.run(job)
    # It has no more rows to write.
    site.run(HOURLY, Incremental(NOON + timedelta(days=1)))
    assert site.run(job).watermark == NOON + timedelta(days=1) - late


def test_a_producer_that_was_refreshed_is_noticed_and_the_remedy_works(site):
    site.click(("ann", 0), ("ann", 200))
    site.run(HOURLY)
    site.run(DAILY)
    site.run(HOURLY, FullRefresh())
    with pytest.raises(Damaged, match=r"hourly is not the table that it has read.*was refreshed.*--full-refresh"):
        site.run(DAILY)
    site.run(DAILY, FullRefresh())
    site.run(HOURLY, Incremental(NOON + timedelta(days=2)))
    site.run(DAILY)
    assert site.table("daily") == [("ann", NOON.replace(hour=0), 2)]


def test_the_rows_of_the_producer_are_counted_by_its_log_and_by_the_consumer(tmp_path):
    site = Site(tmp_path)
    site.click(("ann", 0), ("bob", 70), ("ann", 200))
    site.run(HOURLY)
    summary = site.run(DAILY)
    # Also those that conservation does not count, since the producer counts them.
    assert (summary.counts.events, summary.totals.events) == (2, 2)
    found = check_conservation(site.lakehouse, DAILY)
    assert found.balanced
    assert found.by_input == found.by_producer == {"hourly": (2, 2)}
    # The producer goes on: what was read is held to what was written by then.
    site.click(("ann", 400))
    site.run(HOURLY)
    assert check_conservation(site.lakehouse, DAILY).by_producer == {"hourly": (2, 2)}
    live = Lake(site.lakehouse).live("hourly")
    forged = [live.journal.done(batch) for batch in live.journal.kept()]
    live.journal.amend(
        [], [one.model_copy(update={"total_rows": {**one.total_rows, "hourly": 9}}) for one in forged if one]
    )
    with pytest.raises(AssertionError, match="hourly: 2 in its table and 9 written by its job"):
        keyfold.assert_nothing_lost(site.lakehouse, DAILY)


def test_a_table_that_is_updated_in_place_or_the_jobs_own_is_no_input():
    job = counting("hourly", OF_CLICKS, "1h", NO_EVENTS, Upsert(pa.schema([USER]), "user", name="latest"))
    with pytest.raises(Misconfigured, match="latest of job hourly is updated in place"):
        job.table("latest")
    with pytest.raises(Misconfigured, match=r"has no table hours; it has hourly, latest, late\.hourly"):
        job.table("hours")
    with pytest.raises(Misconfigured, match="is the job's own table"):
        counting("hourly", Input(job.table(), "hour", columns=HOUR), "1d", NO_EVENTS)
