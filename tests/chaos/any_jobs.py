"""A project with a stream and jobs of many kinds, chains among them; and what their tables hold, by plain Python."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise, permutations
from typing import Any

import polars as pl

import keyfold
from keyfold import Input, Rule, Stream
from keyfold.operators import (
    First,
    Highest,
    Last,
    Lateness,
    Pattern,
    count,
    interval_join,
    pattern,
    rows,
    running,
    sessions,
    totals,
    windows,
)
from keyfold.operators import sum as sum_of

CLICKS = Stream(
    "clicks",
    [
        keyfold.required("id", pl.Int64, "Number of the click"),
        keyfold.required("user", pl.String, "Who clicked"),
        keyfold.required("at", pl.Datetime("us", "UTC"), "When"),
        keyfold.required("cents", pl.Int64, "What was paid"),
    ],
    event_time="at",
    event_id=("id",),
    rules=(Rule("cents is negative", pl.col("cents") < 0),),
)
# No click of the histories is later than this behind the newest one.
IN_TIME = Input(CLICKS, delay="6h")
TWICE = CLICKS.derive(twice=pl.col("cents") * 2)
COUNTED = {"clicks": count(), "cents": sum_of("cents")}
HOURS = windows("hours", IN_TIME, COUNTED, key="user", length="1h")
UPSERTED = windows(
    "upserted",
    Input(CLICKS, delay="30m"),
    COUNTED,
    key="user",
    length="2h",
    every="1h",
    lateness=Lateness(allowed="8h", changes=True),
)
CHEAP = Input(CLICKS.where(pl.col("cents") < 4), columns=("user", "id", "at"), delay="6h")
DEAR = Input(
    CLICKS.where(pl.col("cents") > 5).derive(dear=pl.col("id"), paid_at=pl.col("at")),
    "paid_at",
    columns=("user", "dear", "paid_at"),
    delay="6h",
)
LOW_HIGH = {"low": pl.col("cents") < 4, "high": pl.col("cents") > 5}
HALF_AN_HOUR = timedelta(minutes=30)
MORE = pl.col("clicks") - pl.col("clicks_before").fill_null(0)
JOBS = {
    job.name: job
    for job in (
        totals("people", replace(IN_TIME, source=TWICE), {"clicks": count(), "cents": sum_of("twice")}, key="user"),
        HOURS,
        UPSERTED,
        sessions("visits", IN_TIME, COUNTED, key="user", gap="90m"),
        running("so_far", IN_TIME, {"number": count(), "paid": sum_of("cents")}, key="user"),
        rows("latest", IN_TIME, keep=Last(), key="user"),
        rows("earliest", IN_TIME, keep=First(), key="user"),
        rows("dearest", IN_TIME, keep=Highest("cents", n=2), key="user"),
        pattern("rises", IN_TIME, {"rise": Pattern(LOW_HIGH, within="2h")}, key="user", keep=["id"]),
        interval_join("pairs", ("cheap", CHEAP), ("dear", DEAR), "user", earliest=-HALF_AN_HOUR, latest=HALF_AN_HOUR),
        totals("of_hours", Input(HOURS.table(), at="window_end"), {"clicks": sum_of("clicks")}, key="user"),
        totals("of_changes", Input(UPSERTED.changes(), "changed_at"), {"clicks": sum_of(MORE)}, key="user"),
    )
}
CONSUMERS = {"of_hours": "hours", "of_changes": "upserted"}
"""Jobs on tables of other jobs, with the job whose table each reads."""
PROJECT = keyfold.Project(streams_at=f"{__name__}:STREAMS", jobs_at=f"{__name__}:JOBS")
STREAMS = {"clicks": CLICKS}

Click = tuple[str, datetime, int]
Rows = list[tuple[Any, ...]]


def expected(clicks: Mapping[int, Click]) -> dict[str, Rows]:
    """The rows of the event table and of each job once all windows and visits have ended, by plain Python."""
    of_user = defaultdict(list)
    for number, (user, at, cents) in clicks.items():
        of_user[user].append((at, number, cents))
    users = {user: sorted(rows) for user, rows in of_user.items()}
    return {
        "events.clicks": [(number, *click) for number, click in clicks.items()],
        "people": [(user, len(rows), 2 * _counted(rows)[1]) for user, rows in users.items()],
        "hours": _by_start(users, lambda at: [_hour(at)]),
        "upserted": _by_start(users, lambda at: [_hour(at), _hour(at) - timedelta(hours=1)]),
        "visits": [(user, rows[0][0], *_counted(rows)) for user, all_ in users.items() for rows in _visits(all_)],
        "so_far": [
            (user, at, *_counted(rows[: n + 1])) for user, rows in users.items() for n, (at, *_) in enumerate(rows)
        ],
        "latest": [(user, rows[-1][0]) for user, rows in users.items()],
        "earliest": [(user, rows[0][0]) for user, rows in users.items()],
        "dearest": [
            (user, cents, rank)
            for user, rows in users.items()
            for rank, cents in enumerate(sorted((row[2] for row in rows), reverse=True)[:2], start=1)
        ],
        "rises": [
            (user, low, high)
            for user, rows in users.items()
            for n, (at, low, cents) in enumerate(rows)
            for then, high in [next(((then, high) for then, high, dear in rows[n + 1 :] if dear > 5), (at, None))]
            if cents < 4 and high is not None and then - at <= timedelta(hours=2)
        ],
        "pairs": [
            (user, cheap, dear)
            for user, rows in users.items()
            for (at, cheap, low), (then, dear, high) in permutations(rows, 2)
            if low < 4 and high > 5 and abs(then - at) <= HALF_AN_HOUR
        ],
        "of_hours": [(user, len(rows)) for user, rows in users.items()],
        # Windows overlap: each click is in two.
        "of_changes": [(user, 2 * len(rows)) for user, rows in users.items()],
    }


COLUMNS = {
    "events.clicks": ("id", "user", "at", "cents"),
    "people": ("user", "clicks", "cents"),
    "hours": ("user", "window_start", "clicks", "cents"),
    "upserted": ("user", "window_start", "clicks", "cents"),
    "visits": ("user", "window_start", "clicks", "cents"),
    "so_far": ("user", "at", "number", "paid"),
    "latest": ("user", "at"),
    "earliest": ("user", "at"),
    "dearest": ("user", "cents", "rank"),
    "rises": ("user", "low_id", "high_id"),
    "pairs": ("user", "id", "dear"),
    "of_hours": ("user", "clicks"),
    "of_changes": ("user", "clicks"),
}
"""The columns of each table that `expected` gives."""


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _counted(rows: Iterable[tuple[datetime, int, int]]) -> tuple[int, int]:
    cents = [paid for *_, paid in rows]
    return len(cents), sum(cents)


def _by_start(users: Mapping[str, Rows], starts: Callable[[datetime], list[datetime]]) -> Rows:
    of_window = defaultdict(list)
    for user, of_user in users.items():
        for row in of_user:
            for start in starts(row[0]):
                of_window[user, start].append(row)
    return [(*window, *_counted(rows)) for window, rows in of_window.items()]


def _visits(rows: Rows) -> list[Rows]:
    """The clicks of a user, cut where more than 90 minutes are between two."""
    visits = [[rows[0]]]
    for before, row in pairwise(rows):
        if row[0] - before[0] > timedelta(minutes=90):
            visits.append([])
        visits[-1].append(row)
    return visits
