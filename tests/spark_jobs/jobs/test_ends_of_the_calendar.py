"""Jobs on events of any year from 1 to 9999, with parameters of any length: no time lies outside the calendar."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import Stream, required
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.calling.step_call import within_calendar
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.operators import Calendar, Lateness, count, windows
from keyfold.testing import accounted_for, restart
from keyfold.times import BEGINNING, END, period_starts, to_iso
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTALS
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.jobs.top_products import TOP_PRODUCTS
from tests.examples import examples

CLICKS = Stream(
    "clicks", [required("user", pl.Int64, "Who"), required("at", pl.Datetime("us", "UTC"), "When")], event_time="at"
)
NEAR_AN_END = st.datetimes(max_value=datetime(2, 1, 1)) | st.datetimes(min_value=datetime(9998, 1, 1))  # noqa: DTZ001 - see TIMES
TIMES = st.lists((st.datetimes() | NEAR_AN_END).map(lambda time: time.replace(tzinfo=UTC)), min_size=1, max_size=4)

JOBS = {
    "totals": (PURCHASE_TOTALS, lambda length: {"order": "event_time", "expire_after": length}),
    "totals by runs": (PURCHASE_TOTALS, lambda length: {"expire_after": length, "timeout_in": "processing_time"}),
    "index": (EVENT_INDEX, lambda length: {"stream": "sales", "key": "item", "window": length}),
    "top": (TOP_PRODUCTS, lambda length: {"window": length}),
    "averages": (MOVING_AVERAGES, lambda length: {"timeout": length}),
    "rides": (RIDE_SUMMARIES, lambda length: {"timeout": length, "closed_for": length}),
}


@pytest.mark.parametrize("name", JOBS)
@examples(40)
@given(runs=st.lists(TIMES, min_size=1, max_size=2), days=st.sampled_from([1, 100_000, 365_000]), delay=st.booleans())
def test_no_time_of_state_or_of_a_table_lies_outside_the_calendar(name, runs, days, delay):
    template, given_by = JOBS[name]
    job = build_job(template, {**given_by(f"{days}d"), "delay": "100000d" if delay else "0s"})
    harness, read = TestHarness(job), 0
    for times in runs:
        harness.batch(some_events(job, times), processing_time=END)
        restart(harness)
        read += len(times)
        assert accounted_for(job, harness) == read
    harness.batch(processing_time=END, advance_to=END)
    assert accounted_for(job, harness) == read
    # As Python's own times, which have no others.
    assert [frame.rows() for frame in (harness.state, *harness.written.values())]


def some_events(job, times):
    """Events of these times, which say nothing else."""
    columns = {
        name: [None] * len(times) if kind.is_nested() or kind == pl.Boolean else [0] * len(times)
        for name, kind in polars_schema(job.columns).items()
        if not isinstance(kind, pl.Datetime)
    }
    events = pl.DataFrame(
        {**columns, job.event_time: times}, schema_overrides={job.event_time: pl.Datetime("us", "UTC")}
    )
    made = {
        name: how
        for name, how in {**job.only_input.derived, **job.only_input.computed}.items()
        if name in ("window_start", "pane_start", "n_events")
    }
    return events.with_columns(**made).select(
        pl.col(name).cast(kind) for name, kind in polars_schema(job.columns).items()
    )


@pytest.mark.parametrize(("every", "lateness"), [("100000d", None), ("50000d", None), ("100000d", "30d")])
@examples(40)
@given(runs=st.lists(TIMES, min_size=1, max_size=2))
def test_windows_that_end_behind_the_calendar_end_with_it(every, lateness, runs):
    allowed = None if lateness is None else Lateness(allowed=lateness)
    job = windows("long", CLICKS, {"n_events": count()}, key="user", length="100000d", every=every, lateness=allowed)
    harness, read = TestHarness(job), 0
    for times in runs:
        harness.batch(some_events(job, times), processing_time=END)
        restart(harness)
        read += len(times)
        assert accounted_for(job, harness) == read
    harness.batch(processing_time=END, advance_to=END)
    assert accounted_for(job, harness) == read
    assert harness.state.is_empty()


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
@pytest.mark.parametrize(
    ("period", "days"), [("day", [1, 1]), ("week", [7, 7]), ("quarter", [90, 92]), ("year", [365, 365])]
)
def test_periods_of_a_zone_reach_to_the_ends_of_the_calendar(period, days, zone):
    times, periods = pl.Series([BEGINNING, END]).cast(pl.Datetime("us", "UTC")), Calendar(period, zone)
    since = pl.select(periods.start(pl.lit(times))).to_series()
    until = pl.select(periods.end(pl.lit(since))).to_series()
    assert ((since.to_physical() <= times.to_physical()) & (times.to_physical() < until.to_physical())).all()
    if zone == "UTC":
        assert (until.to_physical() - since.to_physical()).to_list() == [24 * 3600 * 1_000_000 * one for one in days]


def test_times_before_the_year_1000_are_written_in_four_digits():
    assert to_iso(datetime(33, 4, 3, tzinfo=UTC)) == "0033-04-03T00:00:00.000000Z"


def test_the_longest_length_that_a_date_can_follow_is_taken():
    job = build_job(PURCHASE_TOTALS, {"delay": "365000d"})
    assert job.only_input.watermark_delay == timedelta(days=365_000)


@given(st.integers(0, 10**13), st.integers(1, 10**9), st.integers(1, 30))
def test_no_two_windows_of_an_event_are_shown_with_one_start(since, every, times):
    step = timedelta(microseconds=every)
    time = pl.lit(BEGINNING + timedelta(microseconds=since)).cast(pl.Datetime("us", "UTC"))
    starts = pl.select(period_starts(time, times * step, step).alias("start")).explode("start")
    shown = within_calendar(starts)["start"]
    assert shown.len() == shown.n_unique() >= 1
    assert shown.is_between(BEGINNING, pl.select(time).item()).all()
