"""Which partitions are complete, and which have changed, over random histories, as plain Python says it of their events."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from keyfold import FullRefresh, Input, KeyedJob
from keyfold.dagster import Partitions
from keyfold.dagster.partitions.reports import LATE, ROWS, ROWS_BEFORE, partition_reports
from keyfold.operators import Lateness, count, windows
from tests.examples import examples
from tests.lake import Lake
from tests.shop import CLICKS, HOUR

BERLIN = ZoneInfo("Europe/Berlin")
DELAY = timedelta(minutes=30)
BEGIN = datetime(2026, 3, 27, tzinfo=BERLIN)
"""Two days before a day of 23 hours."""
NOW = datetime(2026, 11, 1, tzinfo=UTC)

Span = tuple[datetime, datetime]


def day_of(time: datetime) -> Span:
    local = time.astimezone(BERLIN)
    start = datetime(local.year, local.month, local.day, tzinfo=BERLIN)
    following = (start.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=BERLIN)
    return start.astimezone(UTC), following.astimezone(UTC)


def hour_of(time: datetime) -> Span:
    start = time.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return start, start + HOUR


def week_of(time: datetime) -> Span:
    start = day_of(time)[0].astimezone(BERLIN).replace(tzinfo=None)
    monday = start - timedelta(days=start.weekday())
    ends = (moment.replace(tzinfo=BERLIN).astimezone(UTC) for moment in (monday, monday + timedelta(days=7)))
    return next(ends), next(ends)


SPANS: dict[Any, Callable[[datetime], Span]] = {"1d": day_of, "1h": hour_of, "1w": week_of}


@dataclass
class Model:
    """Windows of three hours, or sessions, of each user; and what of their rows is known."""

    column: str
    allowed: timedelta | None
    watermark: datetime = datetime(1, 1, 1, tzinfo=UTC)
    rows: dict[Any, datetime] = field(default_factory=dict)
    open: Counter = field(default_factory=Counter)
    late: list[datetime] = field(default_factory=list)

    def run(self, events: list[tuple[str, datetime]]) -> list[datetime]:
        """Take events, and return the times in the column of the rows that are written."""
        previous = self.watermark
        self.watermark = max([previous, *(at - DELAY for _, at in events)])
        length, written = 3 * HOUR, set()
        for user, at in events:
            start = datetime.fromtimestamp(at.timestamp() // length.total_seconds() * length.total_seconds(), UTC)
            if start + length + (self.allowed or timedelta(0)) <= previous:
                self.late.append(at)
            else:
                self.open[user, start] += 1
                written.add((user, start))
        if self.allowed is None:
            written = set(self.open)
        due = {row for row in {*written, *self.open} - self.rows.keys() if row[1] + length <= self.watermark}
        changed = due | {row for row in written if row in self.rows}
        if self.allowed is None:
            changed = due
        for row in due:
            self.rows[row] = row[1] + (length if self.column == "window_end" else timedelta(0))
        return [self.rows[row] for row in changed]


def job_of(column: str, allowed: timedelta | None) -> KeyedJob:
    lateness = None if allowed is None else Lateness(allowed=allowed)
    return windows("clicked", Input(CLICKS, delay=DELAY), {"n": count()}, key="user", length="3h", lateness=lateness)


class Site:
    """A lakehouse, its instance of Dagster, and what was reported."""

    instance = dg.DagsterInstance.ephemeral()

    def __init__(self, folder: Path, job: KeyedJob, partitions: Partitions) -> None:
        self.lake, self.job, self.partitions = Lake(folder), job, partitions
        self.asset = dg.AssetKey(folder.name)

    def run(self, events: list[tuple[str, datetime]], *mode: Any) -> None:
        kinds = {"user": pl.String, "at": pl.Datetime("us", "UTC"), "clicks": pl.Int64}
        if events:
            self.lake.put(pl.DataFrame([(user, at, 1) for user, at in events], kinds, orient="row"))
        self.lake.run(self.job, *mode)

    def report(self, at_most: int | None = None) -> list[Any]:
        reports = partition_reports(self.instance, self.asset, self.lake.lakehouse, self.job, self.partitions, now=NOW)
        for event in reports.events[:at_most]:
            self.instance.report_runless_asset_event(event)
        if at_most is None and reports.events:
            self.instance.report_runless_asset_event(dg.AssetMaterialization(self.asset, metadata=reports.metadata))
        return list(reports.events[:at_most])


MOMENTS = st.integers(0, 6 * 24 * 4).map(lambda quarters: (BEGIN + quarters * timedelta(minutes=15)).astimezone(UTC))
EVENTS = st.lists(st.tuples(st.sampled_from("ab"), MOMENTS), max_size=4)
RUNS = st.lists(
    st.tuples(EVENTS, st.sampled_from(["report", "report", "none", "killed", "refresh"])), min_size=1, max_size=6
)


@examples(200, shrinks=False)
@given(
    RUNS, st.sampled_from(["1d", "1h", "1w"]), st.sampled_from(["window_start", "window_end"]),
    st.sampled_from([None, 12 * HOUR]),
)  # fmt: skip
def test_each_partition_is_reported_when_it_is_complete_and_again_when_it_has_changed(runs, every, column, allowed):
    model, span_of, first = Model(column, allowed), SPANS[every], None
    partitions = Partitions(column, every=every, zone="Europe/Berlin" if every != "1h" else "UTC", start="2026-01-01")
    dirty, reported, came = set[Span](), dict[Span, int](), list[tuple[str, datetime]]()
    with TemporaryDirectory() as folder:
        site = Site(Path(folder), job_of(column, allowed), partitions)
        for events, then in runs:
            if not came and not events:
                continue
            came += events
            if then == "refresh":
                site.run(events, FullRefresh())
                model = Model(column, allowed)
                model.run(came)
                dirty |= reported.keys()
            else:
                site.run(events)
                dirty |= {span_of(time) for time in model.run(events)}
            first = min(at for _, at in came)
            first = min([first, *model.rows.values()])
            if then == "none":
                continue
            told = site.report(1 if then == "killed" else None)
            complete, (start, end) = [], span_of(first)
            passed = model.watermark
            if column == "window_start":
                seconds = (3 * HOUR).total_seconds()
                passed = datetime.fromtimestamp(passed.timestamp() // seconds * seconds, UTC)
            while end <= passed:
                complete.append((start, end))
                start, end = span_of(end)
            rows = Counter(span_of(time) for time in model.rows.values())
            due = {span for span in complete if span not in reported or span in dirty}
            keys = {period.key: (period.start, period.end) for period in partitions.periods(first, passed)}
            materialized = [event for event in told if isinstance(event, dg.AssetMaterialization)]
            spans = [keys[str(event.partition)] for event in materialized]
            assert len({*spans}) == len(spans)
            assert {*spans} == due if then != "killed" else {*spans} <= due
            for span, event in zip(spans, materialized, strict=True):
                late = [at for at in model.late if span[0] <= at < span[1]]
                assert event.metadata[ROWS].value == rows[span]
                assert event.metadata[LATE].value == len(late)
                assert (event.metadata[ROWS_BEFORE].value if ROWS_BEFORE in event.metadata else None) == reported.get(
                    span
                )
                reported[span] = rows[span]
            dirty -= {*spans}
