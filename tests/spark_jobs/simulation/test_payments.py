"""Payments: planted fraud is where the summary says, and owners are where they can be."""

from collections import defaultdict
from datetime import timedelta

import pytest

from spark_jobs.simulation.payments import CITIES

NEIGHBOURS = {*zip(CITIES[:6:2], CITIES[1:6:2], strict=True), *zip(CITIES[1:6:2], CITIES[:6:2], strict=True)}
TEN_MINUTES = timedelta(minutes=10)


@pytest.fixture(params=[0, 1], ids=["first", "further"])
def call(calls, request):
    return calls("payments")[request.param]


def split(call):
    """Payments of owners by card, in order of time, and the planted ones."""
    planted = {fraud.payment_id for fraud in call.summary.planted}
    owners, frauds = defaultdict(list), []
    for event in sorted(call.found.events, key=lambda event: event["time"]):
        (frauds if event["payment_id"] in planted else owners[event["card"]]).append(event)
    return owners, frauds


def test_one_card_in_twenty_five_is_copied_and_used_soon_after_its_owner_where_the_owner_never_is(call):
    owners, frauds = split(call)
    assert len(frauds) == len(call.summary.planted) == call.summary.size // 25
    assert len({fraud["card"] for fraud in frauds}) == len(frauds)
    for fraud, planted in zip(frauds, sorted(call.summary.planted, key=lambda one: one.time), strict=True):
        assert (fraud["time"], fraud["city"]) == (planted.time, planted.city)
        own = owners[fraud["card"]]
        assert any(timedelta(0) < fraud["time"] - one["time"] <= TEN_MINUTES for one in own)
        assert not {(fraud["city"], one["city"]) for one in own} & {*NEIGHBOURS, (fraud["city"], fraud["city"])}
