"""The job that the cells of scale are measured with."""

import polars as pl

from benchmarks.balances import START, balances, bookings, first_state
from keyfold.keyed.calling.harness import TestHarness


def test_the_measured_job_adds_every_amount_to_its_account():
    harness = TestHarness(balances(4))
    seed = first_state(0, 50)
    harness.state = seed
    events = [bookings(batch, 100, 50) for batch in range(3)]
    for one in events:
        harness.batch(one)
    amounts: dict = {}
    for row in pl.concat([seed, *events]).iter_rows(named=True):
        amounts[row["account"]] = amounts.get(row["account"], 0) + row["amount"]
    assert {row["account"]: row["amount"] for row in harness.state.iter_rows(named=True)} == amounts


def test_events_of_a_batch_keep_to_their_minute():
    rows = bookings(2, 1_000, 10_000)
    minutes = ((rows["at"] - START).dt.total_microseconds() // 60_000_000).unique().to_list()
    assert minutes == [2]
    assert rows["at"].is_sorted()
