"""The tools for state, on a job of two inputs: each counts, changes and goes on as on a job of one stream."""

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest

from keyfold import Input, KeyedJob, Misconfigured, Step
from keyfold.journal.audit import Author
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.job.building import build_job, with_parameters
from keyfold.keyed.job.inputs import STEP_DECIDES
from keyfold.keyed.job.parameters import JobParameters
from keyfold.keyed.job.state import State
from keyfold.keyed.job.tables import Append
from keyfold.runs.event_changes import erase
from keyfold.state.changing.editing import Edit, edit_state
from keyfold.state.changing.moving import move
from keyfold.state.making.seeding import SeedSource, seed_job
from keyfold.stream import TIMESTAMP
from tests.folders import files_that_hold
from tests.shop import CARD, MINUTE, NOON, ORDER, ORDERS, PAYMENT, PAYMENTS, orders, payments
from tests.two_inputs import Till, clock_of, orders_and_payments

BY = Author("dpo@example.org", "request 17")
COUNTS = ("card", "hour", "orders", "payments", "first")


def counted(home):
    return sorted(home.table().select(COUNTS).rows())


@pytest.fixture
def home(tmp_path, without_spark):
    return Till(tmp_path)


def test_conservation_counts_each_input_on_after_an_edit_and_a_move(home, without_spark):
    home.land(ORDERS, orders(("a", 0, "tea"), ("b", 70, "jam")))
    home.land(PAYMENTS, payments(("b", 80, 9)))
    home.run()
    edit_state(home.lakehouse, home.job, Edit(("b",), {"amount": "amount + 1"}, BY), yes=True, runners=without_spark)
    read = {"orders": (2, 2), "payments": (1, 1)}
    assert assert_nothing_lost(home.lakehouse, home.job).by_input == read
    home.job = replace(home.job, key_groups=3)
    move(home.lakehouse, home.job, yes=True, runners=without_spark)
    home.land(PAYMENTS, payments(("b", 85, 3)))
    home.run()
    read = {"orders": (2, 2), "payments": (2, 2)}
    assert assert_nothing_lost(home.lakehouse, home.job).by_input == read
    assert home.done.totals.events == 4


def test_a_person_is_erased_of_both_inputs_and_the_others_are_counted_on(home, without_spark):
    home.land(ORDERS, orders(("amaryllis", 0, "tea"), ("bob", 70, "jam"), ("amaryllis", 75, "pie")))
    home.land(PAYMENTS, payments(("amaryllis", 5, 4), ("bob", 80, 9)))
    home.run()
    home.land(PAYMENTS, payments(("amaryllis", 6, 1), ("amaryllis", 85, 3)))
    home.lakehouse.landing("orders").parent.remove_tree()
    for stream in (ORDERS, PAYMENTS):
        erased = erase(home.lakehouse, stream, [home.job], {"card": ["amaryllis"]}, BY, yes=True, runners=without_spark)
        assert erased.rows[f"events.{stream.name}"]
    assert files_that_hold(home.lakehouse, "amaryllis") == []
    home.run(NOON + timedelta(days=1))
    assert counted(home) == [("bob", NOON + 60 * MINUTE, 1, 1, 9)]
    assert (home.done.total_events, home.done.open_events) == (2, 0)


def test_a_seeded_job_goes_on_behind_what_its_state_has_seen_of_each_input(home, without_spark, tmp_path):
    home.land(ORDERS, orders(("a", 0, "tea")))
    home.land(PAYMENTS, payments(("a", 5, 4)))
    state = {"card": ["a"], "at": [NOON], "kind": ["order"], "amount": [None], "deadline": [NOON + 60 * MINUTE]}
    pl.DataFrame(state, schema_overrides={"amount": pl.Int64}).write_parquet(tmp_path / "state.parquet")
    wanted = SeedSource(str(tmp_path / "state.parquet"), watermark=NOON, read_from="latest")
    told = seed_job(home.lakehouse, home.job, wanted, yes=True, runners=without_spark)
    assert (told.checked.rows, told.new_rows, sorted(told.versions)) == (1, 0, ["events.orders", "events.payments"])
    home.land(PAYMENTS, payments(("a", 30, 7)))
    home.run()
    assert home.done.watermark == NOON, "no order came since"
    home.run(NOON + timedelta(days=1))
    assert counted(home) == [("a", NOON, 1, 1, 7)]
    assert home.done.total_events == 2
    with pytest.raises(Misconfigured, match="a version is one table's: give `latest`"):
        seed_job(home.lakehouse, home.job, replace(wanted, read_from=1), yes=True, runners=without_spark)


def test_by_arrival_every_stream_goes_by_when_its_events_came(home):
    def build(parameters: JobParameters) -> KeyedJob:
        return orders_and_payments()

    home.job = build_job(with_parameters(build), {"time": "arrival"})
    home.land(ORDERS, orders(("a", 600, "tea")))
    home.land(PAYMENTS, payments(("a", 0, 4)))
    home.run()
    home.land(ORDERS, orders(("b", -600, "tea")))
    home.run(home.done.processing_time + timedelta(days=1))
    # The two may have come in two hours.
    by_card = home.table().group_by("card").agg(pl.col("orders", "payments").sum()).sort("card")
    assert by_card.rows() == [("a", 1, 1), ("b", 1, 0)]
    assert home.table()["hour"].min() > NOON + timedelta(days=90)
    assert home.table("late.hours").is_empty()


def silent(state, events, clock):
    """How many events of either input a card had before it was silent for half a minute of processing time."""
    counts = [rows.group_by("card").agg(events=pl.len().cast(pl.Int64)) for rows in events.values()]
    over = state.filter(pl.col("processing_deadline") <= clock.processing_time)
    known = pl.concat(
        [state.filter(pl.col("processing_deadline") > clock.processing_time).drop("processing_deadline"), *counts]
    )
    known = known.group_by("card").agg(pl.col("events").sum())
    processing_deadline = pl.lit(clock.processing_time + timedelta(seconds=30), pl.Datetime("us", "UTC"))
    return Step(
        state=known.with_columns(processing_deadline=processing_deadline), output=over.drop("processing_deadline")
    )


def silent_cards():
    counts = pa.schema([CARD, pa.field("events", pa.int64())])
    of_events = pl.col("events").sum()
    inputs = {
        stream.name: Input(stream, columns=columns, final_at=STEP_DECIDES)
        for stream, columns in ((ORDERS, ORDER), (PAYMENTS, PAYMENT))
    }
    state = State(counts.append(pa.field("processing_deadline", TIMESTAMP)), events=of_events)
    return KeyedJob("silent", inputs, "card", state, silent, Append(counts, events=of_events), key_groups=2)


def test_a_clock_that_was_a_year_ahead_for_one_run_lets_the_timers_of_later_runs_fire(home, monkeypatch):
    later = clock_of(monkeypatch)
    home.job = silent_cards()
    home.land(ORDERS, orders(("a", 0, "tea")))
    later(timedelta(days=365))
    assert home.run().warnings == ()
    # The machine was restarted, and its clock is right.
    later(timedelta(days=-365))
    home.land(ORDERS, orders(("b", 1, "tea")))
    assert "jumped back by 365 days, 0:00:00" in " ".join(home.run().warnings)
    later(timedelta(seconds=31))
    assert home.run().warnings == ()
    assert sorted(home.table("silent").rows()) == [("a", 1), ("b", 1)]


def test_a_timeout_of_processing_time_counts_events_of_any_input(home, monkeypatch):
    later = clock_of(monkeypatch)
    home.job = silent_cards()
    home.land(ORDERS, orders(("a", 0, "tea"), ("b", 1, "tea")))
    home.run()
    later(timedelta(seconds=20))
    home.land(PAYMENTS, payments(("a", 5, 4)))
    home.run()
    later(timedelta(seconds=20))
    home.run()
    assert home.table("silent").rows() == [("b", 1)]
    later(timedelta(seconds=20))
    home.run()
    assert sorted(home.table("silent").rows()) == [("a", 2), ("b", 1)]
