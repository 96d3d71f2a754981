"""The step of purchase totals, without Spark, against a dictionary of sets in plain Python."""

from datetime import UTC, datetime, timedelta
from itertools import accumulate, chain

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import merged, play
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTAL, PURCHASE_TOTALS
from tests.examples import examples
from tests.on_a_grid import assert_nothing_is_due, many_of, moments, on_grid
from tests.spark_jobs.jobs.expiry_oracle import Expiring
from tests.spark_jobs.jobs.sales_data import NOON, retail_days, sale, sales_frame
from tests.spark_jobs.jobs.sales_oracle import Totals, purchase_order

LONG_PAST_ALL = NOON + timedelta(days=30)
BOTH = pytest.mark.parametrize("order", ["arrival", "event_time"])


def totals_job(**parameters):
    return build_job(PURCHASE_TOTALS, parameters)


def play_sales(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=()):
    return play(job, [sales_frame(batch).select(PURCHASE_TOTALS.columns.names) for batch in batches], end, cuts=cuts)


def changes(harness):
    return harness.written["purchase_totals"].rows()


def latest(harness, job):
    return merged(harness, job, "latest_purchase_totals").rows()


def as_written(rows):
    """Rows in the columns of the table, in an order of their own."""
    return pl.DataFrame(rows, schema=polars_schema(PURCHASE_TOTAL), orient="row").sort(PURCHASE_TOTAL.names)


def assert_same_changes(harness, expected):
    found = harness.written["purchase_totals"].sort(PURCHASE_TOTAL.names)
    assert found.equals(expected), f"{found}\n{expected}"


WATCHES = [
    sale("Watch", 2, 0, models=["Series 7", "Series 8"]),
    sale("Phone", 1, 1, models=["14"]),
    sale("Watch", 3, 2, models=["Series 8", "Series 6"]),
    sale("Watch", -1, 3),
]


@BOTH
def test_each_purchase_says_what_its_item_has_come_to(order):
    rows = play_sales(totals_job(order=order), [WATCHES]).written["purchase_totals"].filter(item="Watch").rows()
    assert rows == [
        ("Watch", 2, 2, ["Series 7", "Series 8"], NOON),
        ("Watch", 3, 5, ["Series 6", "Series 7", "Series 8"], NOON + timedelta(minutes=2)),
        ("Watch", -1, 4, ["Series 6", "Series 7", "Series 8"], NOON + timedelta(minutes=3)),
    ]


def test_by_arrival_rows_come_out_at_once_and_by_event_time_when_the_watermark_has_passed():
    batch = [sale("cup", 1, 0), sale("cup", 2, 30)]
    assert len(changes(play_sales(totals_job(), [batch], end=None))) == 2
    waits = play_sales(totals_job(order="event_time"), [batch], end=None)
    assert [row[1] for row in changes(waits)] == [1]
    assert waits.state["deadline"].to_list() == [None, NOON + timedelta(minutes=30)]


@BOTH
def test_totals_stay_for_ever_and_without_waiting_purchases_no_timer_does(order):
    state = play_sales(totals_job(order=order), [WATCHES]).state
    assert sorted(state["item"]) == ["Phone", "Watch"]
    assert state["deadline"].is_null().all()


def test_an_order_that_is_none_is_refused():
    with pytest.raises(KeyfoldError, match="order='random'"):
        totals_job(order="random")


MODELS = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "b", "Ü", "\0"])), max_size=3))


CUTS = st.lists(on_grid(40, 5).map(lambda minutes: NOON + timedelta(minutes=minutes)), max_size=6)


@st.composite
def purchases_in_batches(draw):
    """Purchases of a few items, with many ties, in any order and any split."""
    one = st.tuples(st.sampled_from(["cup", "hat", "pot"]), st.integers(-3, 3), moments(40, 5), MODELS)
    drawn = draw(many_of(one, 25))
    purchases = [sale(item, quantity, minutes, models=models) for item, quantity, minutes, models in drawn]
    cuts = sorted(draw(st.lists(st.integers(0, len(purchases)), max_size=5)))
    return [purchases[a:b] for a, b in zip([0, *cuts], [*cuts, len(purchases)], strict=True)]


@examples(100)
@given(purchases_in_batches(), on_grid(30, 5, 1))
def test_by_arrival_any_order_and_split_agrees_with_plain_python_fed_the_same_batches(batches, delay):
    job, oracle = totals_job(watermark_delay=timedelta(minutes=delay)), Totals()
    expected = [row for batch in batches for row in oracle.add(batch)]
    harness = play_sales(job, batches)
    assert_same_changes(harness, as_written(expected))
    assert latest(harness, job) == oracle.latest()


@examples(100)
@given(purchases_in_batches(), CUTS)
def test_by_event_time_every_order_split_and_slices_within_the_delay_give_one_table_of_changes(batches, cuts):
    job, oracle = totals_job(order="event_time", watermark_delay="1h"), Totals()
    expected = oracle.add(list(chain(*batches)))
    harness = play_sales(job, batches, cuts=cuts)
    assert_same_changes(harness, as_written(expected))
    assert latest(harness, job) == oracle.latest()


EXPIRIES = on_grid(30, 5, 1).map(lambda minutes: timedelta(minutes=minutes))
GAPS = st.lists(on_grid(30, 5), min_size=6, max_size=6)


def total_of(life, place):
    """What a life has come to at one of its purchases."""
    until = life.events[: place + 1]
    models = sorted({model for one in until for model in one.get("models") or [] if model})
    return sum(one["quantity"] for one in until), models


@BOTH
@pytest.mark.parametrize("kind", ["event_time", "processing_time"])
@examples(150)
@given(purchases_in_batches(), on_grid(30, 5), EXPIRIES, CUTS, GAPS)
def test_totals_that_expire_in_either_time_are_those_of_each_item_s_life(order, kind, runs, delay, after, cuts, gaps):
    delay = timedelta(minutes=delay)
    times = [NOON + timedelta(minutes=minutes) for minutes in accumulate(gaps)][: len(runs)]
    job = totals_job(order=order, watermark_delay=delay, expire_after=after, timeout_in=kind)
    at_once, in_processing_time = order == "arrival", kind == "processing_time"
    oracle = Expiring(after, in_processing_time=in_processing_time, delay=delay, at_once=at_once, order=purchase_order)
    latest_totals = {}
    for now, run in zip(times, runs, strict=True):
        # What lies ahead of the watermark is of its life when it is worked on, though a run may be cut into slices.
        oracle.run(now, run)
        for item in {one["item"] for one in run}:
            life = oracle.coming(item) if item in oracle.kept() else last_life(oracle, item)
            latest_totals[item] = total_of(life, len(life.events))
    harness = play(
        job, [sales_frame(run).select(PURCHASE_TOTALS.columns.names) for run in runs], cuts=cuts, times=times
    )
    expected = [(one["item"], one["quantity"], *total_of(life, place), one["time"]) for life, place, one in oracle.told]
    assert_same_changes(harness, as_written(expected))
    assert latest(harness, job) == [(item, *latest_totals[item]) for item in sorted(latest_totals)]
    assert sorted(set(harness.state["item"])) == oracle.kept()
    assert_nothing_is_due(harness)


def last_life(oracle, item):
    return next(life for life, _, one in reversed(oracle.told) if one["item"] == item)


def test_a_job_without_an_expiry_keeps_no_column_for_it():
    assert totals_job().state.schema.names == ["item", "quantity", "models", "time", "deadline"]
    with pytest.raises(KeyfoldError, match="timeout_in=processing_time requires expire_after"):
        totals_job(timeout_in="processing_time")


def test_every_purchase_of_the_real_shop_agrees_with_a_dictionary_of_sets(shop):
    """Days follow one another: added up a day at a time or all at once, they come to the same."""
    days, oracle = [day.select(PURCHASE_TOTALS.columns.names) for day in retail_days(shop)], Totals()
    expected = as_written([row for day in days for row in oracle.add(day.to_dicts())])
    for batches, order in ((days, "arrival"), ([pl.concat(days)], "event_time")):
        job = totals_job(order=order)
        harness = play(job, batches, end=datetime(2011, 12, 31, tzinfo=UTC))
        assert_same_changes(harness, expected)
        assert latest(harness, job) == oracle.latest()
        assert harness.state.height == len(oracle.quantity)
