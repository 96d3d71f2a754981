"""The job that the cells of scale are measured with."""

import numpy as np
import polars as pl

from benchmarks.scale.balances import START, accounts, balances, bookings, first_state
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.rows.hashing import key_hash


def test_the_measured_job_adds_every_amount_to_its_account_and_slot():
    harness = TestHarness(balances(4))
    seed = first_state(0, 50, 2)
    harness.state = seed
    events = [bookings(batch, 100, 50, 2, 4, 4) for batch in range(3)]
    for one in events:
        harness.batch(one)
    amounts: dict = {}
    for row in pl.concat([seed, *events]).iter_rows(named=True):
        place = row["account"], row["slot"]
        amounts[place] = amounts.get(place, 0) + row["amount"]
    assert {(row["account"], row["slot"]): row["amount"] for row in harness.state.iter_rows(named=True)} == amounts


def test_events_of_a_batch_keep_to_their_minute_and_to_the_groups_that_are_asked_for():
    rows = bookings(2, 1_000, 10_000, 3, 64, 8)
    groups = rows.select(key_hash(("account",)) % 64).to_series()
    assert set(groups.to_list()) == set(range(8))
    minutes = ((rows["at"] - START).dt.total_microseconds() // 60_000_000).unique().to_list()
    assert minutes == [2]
    assert rows["at"].is_sorted()


def test_no_two_numbers_have_one_account():
    assert accounts(np.arange(1_000_000)).n_unique() == 1_000_000
