"""Every operator, in the ways that its durations and tables can be declared, for properties that must hold for all of them.

A case is a function of durations that makes a job, so that a test can choose them; the names of its arguments are those that the
operator gives them.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import polars as pl

from keyfold import Append, Input, KeyedJob, Stream, Timeout, Upsert, required
from keyfold.keyed.job.parameters import WindowShape
from keyfold.operators import (
    Calendar,
    First,
    Held,
    Highest,
    Last,
    Lateness,
    Pattern,
    Then,
    Top,
    Until,
    While,
    Without,
    alert,
    as_of_join,
    buffer,
    count,
    first,
    interval_join,
    last,
    last_n,
    pattern,
    rows,
    running,
    sessions,
    totals,
    window_join,
    windows,
)
from keyfold.operators import sum as sum_of

TIME = pl.Datetime("us", "UTC")
VISITS = Input(
    Stream(
        "visits",
        [required("user", pl.String, "Who"), required("at", TIME, "When"), required("cents", pl.Int64, "Paid")],
        event_time="at",
    ),
    columns=("user", "at", "cents"),
    delay="2m",
)
"""Visits of users; those that pay 9 or more cents are the last of a session, and those that pay fewer than 5 pay little."""

MOVES = Input(
    Stream(
        "moves",
        [required("user", pl.String, "Who"), required("moved_at", TIME, "When"), required("steps", pl.Int64, "Number")],
        event_time="moved_at",
    ),
    columns=("user", "moved_at", "steps"),
    delay="3m",
)

IS_LAST, IS_LITTLE = pl.col("cents") >= 9, pl.col("cents") < 5
SUMS = {"n": count(), "paid": sum_of("cents")}
SPAN = {"since": first("at"), "until": last("at"), "n": count()}
N_EVENTS = pl.col("n").sum()
OF_SPAN = {"user": pl.String, "since": TIME, "until": TIME, "n": pl.Int64}
SENT = [Append({"user": pl.String, "at": TIME, "cents": pl.Int64})]


class Case(NamedTuple):
    """A way to use an operator: the names of its durations, and a function of these that makes a job."""

    durations: tuple[str, ...]
    make: Callable[..., KeyedJob]

    def of(self, durations: Iterable[timedelta]) -> KeyedJob:
        """Return the job with its durations, in the order of their names; more of them are left."""
        return self.make(**dict(zip(self.durations, durations, strict=False)))


def _in_either_time(name: str, durations: tuple[str, ...], make: Callable[..., KeyedJob]) -> dict[str, Case]:
    """Return a case for the gap in event time, and one in processing time."""

    def in_processing_time(gap: timedelta, **others: timedelta) -> KeyedJob:
        return make(gap=Timeout(gap, "processing_time"), **others)

    return {name: Case(durations, make), f"{name} in processing time": Case(durations, in_processing_time)}


def _sent(events: pl.DataFrame, clock: object) -> dict[str, pl.DataFrame]:
    return {"made": events.select("user", "at", "cents")}


def _last_session(gap: timedelta | Timeout, closed_for: timedelta, *, at_once: bool = False) -> KeyedJob:
    last_of_each = Upsert(OF_SPAN, "user", name="last_session")
    return sessions(
        "made", VISITS, SPAN, until=Until(IS_LAST, closed_for, at_once), key="user", gap=gap,
        selected=[(last_of_each, pl.lit(value=True))],
    )  # fmt: skip


def _between(gap: timedelta | Timeout, pause: timedelta) -> KeyedJob:
    return sessions("made", VISITS, SPAN, while_=While(IS_LITTLE, pause), key="user", gap=gap)


def _last_two(gap: timedelta | Timeout) -> KeyedJob:
    latest = Upsert({"user": pl.String, "n": pl.Int64, "paid": pl.Int64, "reason": pl.String}, "user", name="latest")
    return last_n("made", VISITS, SUMS, n=2, from_n=1, key="user", gap=gap, latest=latest)


def _running(expiry: Timeout, *, at_once: bool = False) -> KeyedJob:
    latest = Upsert({"user": pl.String, "n": pl.Int64, "paid": pl.Int64}, "user", name="latest")
    return running("made", VISITS, SUMS, key="user", expiry=expiry, latest=latest, at_once=at_once)


EVERY_OPERATOR: dict[str, Case] = {
    "windows": Case(("length",), lambda length: windows("made", VISITS, SUMS, key="user", length=length)),
    "windows that overlap": Case(("every",), lambda every: windows("made", VISITS, SUMS, key="user", length=3 * every, every=every)),
    "windows while open": Case(("length",), lambda length: windows(
        "made", VISITS, SUMS, key="user", length=length, lateness=Lateness(while_open=True, changes=True)
    )),
    "windows that are corrected": Case(("length", "allowed"), lambda length, allowed: windows(
        "made", VISITS, SUMS, key="user", length=length, lateness=Lateness(allowed=allowed)
    )),
    "windows of the calendar": Case((), lambda: windows(
        "made", VISITS, SUMS, key="user", length=Calendar("day", "Europe/Berlin")
    )),
    "top of windows": Case(("length",), lambda length: windows(
        "made", VISITS, {"cents": sum_of("cents")}, length=length, by="user", top=Top(n=1, highest="cents")
    )),
    "top of a key's windows": Case(("length",), lambda length: windows(
        "made", VISITS, {"n": count()}, key="user", length=length, by="cents", top=Top(n=2, highest="n")
    )),
    "sessions": Case(("gap",), lambda gap: sessions("made", VISITS, SPAN, key="user", gap=gap)),
    **_in_either_time("sessions until", ("gap", "closed_for"), _last_session),
    **_in_either_time(
        "sessions until at once", ("gap", "closed_for"), partial(_last_session, at_once=True)
    ),
    **_in_either_time("sessions while", ("gap", "pause"), _between),
    **_in_either_time("last_n", ("gap",), _last_two),
    "running": Case(("expiry",), lambda expiry: _running(Timeout(expiry))),
    "running in processing time": Case(("expiry",), lambda expiry: _running(Timeout(expiry, "processing_time"))),
    "running at once": Case(("expiry",), lambda expiry: _running(Timeout(expiry), at_once=True)),
    "running in windows": Case(("window",), lambda window: running("made", VISITS, SUMS, key="user", window=WindowShape(window, window))),
    "running in windows that overlap": Case(("window",), lambda window: running(
        "made", VISITS, SUMS, key="user", window=WindowShape(3 * window, window)
    )),
    "totals": Case((), lambda: totals("made", VISITS, SUMS, key="user")),
    "rows that are highest": Case((), lambda: rows("made", VISITS, keep=Highest("cents", n=2), key="user")),
    "rows that are first": Case((), lambda: rows("made", VISITS, keep=First(), key="user")),
    "first rows that expire": Case(("expires",), lambda expires: rows("made", VISITS, keep=First(expires), key="user")),
    "rows that are last": Case((), lambda: rows("made", VISITS, keep=Last(), key="user")),
    "last rows that expire": Case(("expires",), lambda expires: rows("made", VISITS, keep=Last(expires), key="user")),
    "alert": Case(("held_for", "cool_down"), lambda held_for, cool_down: alert(
        "made", VISITS, {"high": Held(~IS_LITTLE, IS_LITTLE, held_for, cool_down)}, key="user"
    )),
    "pattern": Case(("within",), lambda within: pattern(
        "made", VISITS, {"up": Pattern({"low": IS_LITTLE, "high": Then(IS_LAST)}, within=within)}, key="user"
    )),
    "pattern of what is absent": Case(("within",), lambda within: pattern(
        "made", VISITS, {"up": Pattern({"low": IS_LITTLE, "no_high": Without(IS_LAST)}, within=within)}, key="user"
    )),
    "buffer": Case(("wait",), lambda wait: buffer(
        "made", VISITS, 2, _sent, SENT, key="user", wait=wait
    )),
    "buffer in processing time": Case(("processing_wait",), lambda processing_wait: buffer(
        "made", VISITS, 2, _sent, SENT, key="user", processing_wait=processing_wait
    )),
    "as_of_join": Case(("within",), lambda within: as_of_join(
        "made", VISITS, MOVES, "user", within=within
    )),
    "interval_join": Case(("earliest", "latest"), lambda earliest, latest: interval_join(
        "made", VISITS, MOVES, "user", earliest=-earliest, latest=latest, how="left"
    )),
    "window_join": Case(("length",), lambda length: window_join(
        "made", VISITS, MOVES, "user", length=length, how="left"
    )),
}  # fmt: skip
"""A function of durations for each operator, and for each of its ways to use them."""
