"""Clicks with identities and a rule, for changes of events."""

from datetime import timedelta

import polars as pl

from keyfold.stream import Rule, Stream
from tests.shop import CLICK, START

CLICKS = Stream(
    "clicks",
    CLICK,
    "at",
    event_id=("user", "at"),
    rules=(Rule("clicks is negative", pl.col("clicks") < 0),),
    future_bound=timedelta(days=4000),
)


def events(*rows):
    at = [START + timedelta(minutes=minute) for _, minute, _ in rows]
    return pl.DataFrame({"user": [user for user, *_ in rows], "at": at, "clicks": [clicks for *_, clicks in rows]})
