"""Payments: planted fraud is where the summary says, and owners are where they can be."""

from collections import defaultdict
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest

from keyfold.times import micros
from spark_jobs.simulation.contract import HOUR
from spark_jobs.simulation.payments import CITIES, ONLINE, payments_table
from tests.spark_jobs.simulation.conftest import START

NEIGHBOURS = {*zip(CITIES[:6:2], CITIES[1:6:2], strict=True), *zip(CITIES[1:6:2], CITIES[:6:2], strict=True)}
TEN_MINUTES = timedelta(minutes=10)


@pytest.fixture(params=[0, 1], ids=["first", "further"])
def call(calls, request):
    return calls("payments")[request.param]


def split(call):
    """Payments of owners by card, in order of time, and the planted ones."""
    planted = {fraud.payment_id for fraud in call.summary.frauds}
    owners, frauds = defaultdict(list), []
    for event in sorted(call.found.events, key=lambda event: event["time"]):
        (frauds if event["payment_id"] in planted else owners[event["card"]]).append(event)
    return owners, frauds


def test_one_card_in_twenty_five_is_copied_and_used_soon_after_its_owner_where_the_owner_never_is(call):
    owners, frauds = split(call)
    assert len(frauds) == len(call.summary.frauds) == call.summary.cards // 25
    assert len({fraud["card"] for fraud in frauds}) == len(frauds)
    for fraud, planted in zip(frauds, sorted(call.summary.frauds, key=lambda one: one.time), strict=True):
        assert (fraud["time"], fraud["city"]) == (planted.time, planted.city)
        own = owners[fraud["card"]]
        assert any(timedelta(0) < fraud["time"] - one["time"] <= TEN_MINUTES for one in own)
        assert not {(fraud["city"], one["city"]) for one in own} & {*NEIGHBOURS, (fraud["city"], fraud["city"])}


def test_owners_are_in_another_city_so_soon_only_across_a_bridge_or_online_and_both_are_counted(call):
    owners, _ = split(call)
    bridges = 0
    for payments in owners.values():
        for before, after in pairwise(payments):
            if before["city"] != after["city"] and after["time"] - before["time"] <= TEN_MINUTES:
                online = ONLINE in (before["merchant"], after["merchant"])
                assert online or (before["city"], after["city"]) in NEIGHBOURS
                bridges += (before["city"], after["city"]) in NEIGHBOURS
    online = sum(payment["merchant"] == ONLINE for payments in owners.values() for payment in payments)
    assert call.summary.online == online > 0
    assert call.summary.over_a_bridge == bridges > 0


def test_every_card_pays_and_no_number_comes_twice(calls):
    first, further = calls("payments")
    assert len(first.found.keys) == first.summary.cards == 500
    assert first.found.keys == further.found.keys, "the same cards go on"
    numbers = [event["payment_id"] for call in (first, further) for event in call.found.events]
    assert len(set(numbers)) == len(numbers)


def test_the_table_is_in_order_and_says_which_rows_are_planted():
    begin = micros(START)
    table, planted = payments_table(np.random.default_rng(3), 200, begin, begin + 24 * HOUR)
    assert table["time"].is_sorted()
    assert len(planted) == 8
    assert table[planted]["card"].n_unique() == 8
