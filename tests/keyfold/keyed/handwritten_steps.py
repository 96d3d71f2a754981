"""Steps as a newcomer writes them, which know nothing of the order of events and deadlines, and what each must give, in plain Python."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import polars as pl

from keyfold import (
    DEADLINE,
    PROCESSING_DEADLINE,
    STEP_DECIDES,
    Append,
    Clock,
    Input,
    KeyedJob,
    State,
    Step,
    Stream,
    Timeout,
    required,
)
from tests.shop import NOON

TIME = pl.Datetime("us", "UTC")
TIMEOUT = timedelta(minutes=10)
SOON = timedelta(minutes=1)
TICK = timedelta(microseconds=1)
CLICK = {"user": pl.String, "at": TIME, "cents": pl.Int64}
CLICKS = Stream("clicks", [required(name, kind, name) for name, kind in CLICK.items()], event_time="at")
VISIT = {"user": pl.String, "since": TIME, "clicks": pl.Int64, "cents": pl.Int64}
ALARM = 7
"""A click of so many cents raises an alarm, or ends a visit soon."""


class Click(NamedTuple):
    user: str
    at: datetime
    cents: int


def frame(clicks: Iterable[Click]) -> pl.DataFrame:
    return pl.DataFrame(list(clicks), schema=CLICK, orient="row")


def count_clicks(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Count the clicks of a user until ten minutes after the last; what is due is closed first, as one call sees it."""
    is_over = pl.col(DEADLINE) <= clock.watermark
    over, visits = state.filter(is_over), state.filter(~is_over)
    came = events.group_by("user").agg(
        since=pl.col("at").min(), clicks=pl.len().cast(pl.Int64), cents=pl.col("cents").sum(), last=pl.col("at").max()
    )
    came = came.with_columns((pl.col("last") + TIMEOUT).alias(DEADLINE)).drop("last")
    visits = (
        pl.concat([visits, came.select(state.columns)])
        .group_by("user")
        .agg(pl.col("since").min(), pl.col("clicks").sum(), pl.col("cents").sum(), pl.col(DEADLINE).max())
    )
    return Step(state=visits.select(state.columns), output=over.drop(DEADLINE))


def count_by_changes(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """The same, as changes of the state."""
    step = count_clicks(state, events, clock)
    return Step(add=step.state, drop=pl.concat([state.select("user"), events.select("user")]), output=step.output)


def count_by_either(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """The same, as changes where there are events, and as the whole state where there are none."""
    return count_by_changes(state, events, clock) if events.height else count_clicks(state, events, clock)


def first_of_each(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Write the first click of a user, and count the others until ten minutes after it, when the user may come again."""
    is_known = pl.col(DEADLINE) > clock.watermark
    expired, known = state.filter(~is_known), state.filter(is_known)
    came = events.group_by("user").agg(
        since=pl.col("at").min(), clicks=pl.len().cast(pl.Int64), cents=pl.col("cents").sum()
    )
    came = came.with_columns((pl.col("since") + TIMEOUT).alias(DEADLINE)).select(state.columns)
    known = (
        pl.concat([known, came])
        .group_by("user", maintain_order=True)
        .agg(pl.col("since").first(), pl.col("clicks").sum(), pl.col("cents").sum(), pl.col(DEADLINE).first())
    )
    return Step(state=known.select(state.columns), output=expired.drop(DEADLINE))


def until_alarm(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Count the clicks of a user without an end, until ten minutes after the first that raises an alarm."""
    is_over = (pl.col(DEADLINE) <= clock.watermark).fill_null(value=False)
    over, visits = state.filter(is_over), state.filter(~is_over)
    alarm = pl.col("at").filter(pl.col("cents") == ALARM).min() + TIMEOUT
    came = events.group_by("user").agg(
        since=pl.col("at").min(), clicks=pl.len().cast(pl.Int64), cents=pl.col("cents").sum(), deadline=alarm
    )
    visits = (
        pl.concat([visits, came.select(state.columns)])
        .group_by("user", maintain_order=True)
        .agg(pl.col("since").min(), pl.col("clicks").sum(), pl.col("cents").sum(), pl.col(DEADLINE).min())
    )
    return Step(state=visits.select(state.columns), output=over.drop(DEADLINE))


def until_goodbye(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Count the clicks of a user until ten minutes after the first, or a minute after one of seven cents."""
    is_over = pl.col(DEADLINE) <= clock.watermark
    over, visits = state.filter(is_over), state.filter(~is_over)
    goodbye = pl.col("at").filter(pl.col("cents") == ALARM).min() + SOON
    came = events.group_by("user").agg(
        since=pl.col("at").min(),
        clicks=pl.len().cast(pl.Int64),
        cents=pl.col("cents").sum(),
        deadline=pl.min_horizontal(pl.col("at").min() + TIMEOUT, goodbye),
    )
    visits = (
        pl.concat([visits, came.select(state.columns)])
        .group_by("user", maintain_order=True)
        .agg(pl.col("since").min(), pl.col("clicks").sum(), pl.col("cents").sum(), pl.col(DEADLINE).min())
    )
    return Step(state=visits.select(state.columns), output=over.drop(DEADLINE))


def each_expires(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Keep a row per click for ten minutes; when one expires, write how many there are."""
    is_over = pl.col(DEADLINE) <= clock.watermark
    counts = state.group_by("user").agg(all=pl.col("clicks").sum())
    over = state.filter(is_over).join(counts, on="user")
    output = over.with_columns(clicks="all").select(*VISIT)
    came = events.select("user", since="at", clicks=pl.lit(1, pl.Int64), cents="cents", deadline=pl.col("at") + TIMEOUT)
    return Step(state=pl.concat([state.filter(~is_over), came.select(state.columns)]), output=output)


def each_expires_by_changes(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """The same, where the rows of a user stay as they are until one expires."""
    step = each_expires(state, events, clock)
    changed = state.filter(pl.col(DEADLINE) <= clock.watermark).select("user").unique()
    came = step.state.tail(events.height)
    stays = step.state.head(step.state.height - events.height).join(changed, on="user", how="semi")
    return Step(add=pl.concat([stays, came]), drop=changed, output=step.output)


def in_processing_time(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Count the clicks of a user until no run has brought one for ten minutes."""
    is_over = pl.col(PROCESSING_DEADLINE) <= clock.processing_time
    over, visits = state.filter(is_over), state.filter(~is_over)
    due = pl.lit(clock.processing_time + TIMEOUT, TIME)
    came = events.group_by("user").agg(
        since=pl.col("at").min(), clicks=pl.len().cast(pl.Int64), cents=pl.col("cents").sum()
    )
    came = came.with_columns(due.alias(PROCESSING_DEADLINE))
    visits = (
        pl.concat([visits, came.select(state.columns)])
        .group_by("user")
        .agg(pl.col("since").min(), pl.col("clicks").sum(), pl.col("cents").sum(), pl.col(PROCESSING_DEADLINE).max())
    )
    return Step(state=visits.select(state.columns), output=over.drop(PROCESSING_DEADLINE))


SILENCE = Timeout(TIMEOUT, "processing_time")


def by_timeout(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """The same with `Timeout`, which relies on it that keys that have timed out have a call of their own."""
    if SILENCE.has_run_out(state, clock):
        return Step(state=state.clear(), output=state.drop(PROCESSING_DEADLINE))
    sums = [pl.col("since").min(), pl.col("clicks").sum(), pl.col("cents").sum()]
    came = events.select("user", since="at", clicks=pl.lit(1, pl.Int64), cents="cents")
    visits = pl.concat([state.drop(PROCESSING_DEADLINE), came]).group_by("user").agg(sums)
    return Step(state=SILENCE.renew(visits, state, events, ["user"], clock))


Visit = dict[str, Any]


class Oracle:
    """One user's visits, a click at a time. `visit` is open until `deadline`."""

    def __init__(self) -> None:
        self.visits: list[Visit] = []
        self.written: list[tuple[datetime, int, int]] = []

    def click(self, click: Click, now: datetime) -> None:
        if not self.visits:
            self.visits = [{"since": click.at, "clicks": 0, "cents": 0, "deadline": None}]
        (visit,) = self.visits
        visit["clicks"] += 1
        visit["cents"] += click.cents
        visit["deadline"] = self.deadline(visit, click, now)

    def deadline(self, visit: Visit, click: Click, now: datetime) -> datetime | None:
        return click.at + TIMEOUT

    def close(self, visit: Visit) -> None:
        self.written.append((visit["since"], visit["clicks"], visit["cents"]))
        self.visits.remove(visit)

    def due(self) -> Visit | None:
        with_deadline = [visit for visit in self.visits if visit["deadline"] is not None]
        return min(with_deadline, key=lambda visit: visit["deadline"], default=None)


class FirstOfEach(Oracle):
    def deadline(self, visit: Visit, click: Click, now: datetime) -> datetime | None:
        return visit["deadline"] or click.at + TIMEOUT


class UntilAlarm(Oracle):
    def deadline(self, visit: Visit, click: Click, now: datetime) -> datetime | None:
        return visit["deadline"] or (click.at + TIMEOUT if click.cents == ALARM else None)


class UntilGoodbye(Oracle):
    def deadline(self, visit: Visit, click: Click, now: datetime) -> datetime | None:
        first = visit["deadline"] or click.at + TIMEOUT
        return min(first, click.at + SOON) if click.cents == ALARM else first


class EachExpires(Oracle):
    def click(self, click: Click, now: datetime) -> None:
        self.visits.append({"since": click.at, "clicks": 1, "cents": click.cents, "deadline": click.at + TIMEOUT})

    def close(self, visit: Visit) -> None:
        # Clicks of one moment expire together.
        together = [one for one in self.visits if one["deadline"] == visit["deadline"]]
        self.written += [(one["since"], len(self.visits), one["cents"]) for one in together]
        self.visits = [one for one in self.visits if one not in together]


class InProcessingTime(Oracle):
    def deadline(self, visit: Visit, click: Click, now: datetime) -> datetime | None:
        return now + TIMEOUT


@dataclass(frozen=True)
class Case:
    """A step and its oracle; `timer` is the column of state with its deadline."""

    step: Any
    oracle: type[Oracle]
    timer: str = DEADLINE

    def job(self, delay: timedelta, **settings: Any) -> KeyedJob:
        state = State({**VISIT, self.timer: TIME}, events=pl.col("clicks").sum())
        events = pl.len() if self.oracle is EachExpires else pl.col("clicks").sum()
        read = Input(CLICKS, columns=tuple(CLICK), delay=delay, final_at=STEP_DECIDES)
        return KeyedJob(
            "visits", read, "user", state, self.step, Append(VISIT, events=events), key_groups=2, **settings
        )

    def rows(self, runs: Iterable[tuple[datetime, list[Click]]], delay: timedelta) -> list[tuple[Any, ...]]:
        """Return the rows of the table after runs, each with its processing time and its clicks."""
        oracles: dict[str, Oracle] = {}
        watermark = NOON - 10 * TIMEOUT
        for now, clicks in runs:
            for oracle in oracles.values() if self.timer == PROCESSING_DEADLINE else ():
                _fire(oracle, now)
            for click in sorted(clicks, key=lambda click: click.at):
                watermark = click.at - delay
                oracle = oracles.setdefault(click.user, self.oracle())
                if self.timer == DEADLINE:
                    # An event is counted before what is due by the watermark that it brings.
                    _fire(oracle, watermark - TICK)
                oracle.click(click, now)
        for oracle in oracles.values() if self.timer == DEADLINE else ():
            _fire(oracle, watermark)
        return sorted((user, *row) for user, oracle in oracles.items() for row in oracle.written)


def _fire(oracle: Oracle, until: datetime) -> None:
    while (visit := oracle.due()) is not None and visit["deadline"] <= until:
        oracle.close(visit)


CASES: Mapping[str, Case] = {
    "count with timeout": Case(count_clicks, Oracle),
    "count with timeout, by changes": Case(count_by_changes, Oracle),
    "count with timeout, by changes and the whole": Case(count_by_either, Oracle),
    "first of each": Case(first_of_each, FirstOfEach),
    "until an alarm": Case(until_alarm, UntilAlarm),
    "until a goodbye": Case(until_goodbye, UntilGoodbye),
    "each expires": Case(each_expires, EachExpires),
    "each expires, by changes": Case(each_expires_by_changes, EachExpires),
    "count in processing time": Case(in_processing_time, InProcessingTime, PROCESSING_DEADLINE),
    "by a timeout in processing time": Case(by_timeout, InProcessingTime, PROCESSING_DEADLINE),
}
