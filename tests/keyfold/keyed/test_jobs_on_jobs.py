"""Jobs on jobs: the append table of one job is an input of another."""

from collections import Counter
from datetime import timedelta

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
from tests.chained_jobs import CLICKS_OF_HOUR, DAILY, HOURLY, NO_EVENTS, OF_CLICKS, Chain, adding_up, counting
from tests.examples import examples
from tests.lake import Lake
from tests.power_cuts import OF_A_BATCH
from tests.shop import CLICK, MINUTE, NOON, USER, clicks


@pytest.fixture
def site(tmp_path):
    return Chain(tmp_path)


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
    site = Chain(tmp_path_factory.mktemp("site"))
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
            "rows": Input(
                HOURLY.table(), "hour", columns=CLICKS_OF_HOUR, idle_timeout=timedelta(microseconds=1), **how
            ),
            "others": Input(other, "at", columns=CLICK, **how),
        },
        "user",
        State(pa.schema([USER]), events=NO_EVENTS),
        lambda state, events, clock: Step(state=state, output=state.clear()),
        Append(pa.schema([USER]), events=NO_EVENTS),
    )
    site.click(("ann", 0))
    site.lake.land(other, clicks(("ann", 30 * 24 * 60), since=NOON))
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
    site = Chain(tmp_path)
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
        counting("hourly", Input(job.table(), "hour", columns=CLICKS_OF_HOUR), "1d", NO_EVENTS)
