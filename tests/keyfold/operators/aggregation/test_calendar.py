"""Periods of the calendar follow one another without gaps, in every time zone, and an event is in the one that plain Python says."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from keyfold import Stream
from keyfold.operators import count, windows
from keyfold.operators.aggregation.window_shapes import Calendar
from keyfold.testing import play
from keyfold.times import to_times
from tests.examples import ALL

MIDNIGHT, DAY = datetime.min.time(), timedelta(days=1)
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
FIRST_DAYS: dict[Any, Callable[[date], date]] = {
    "day": lambda day: day,
    "week": lambda day: day - timedelta(days=day.weekday()),
    "month": lambda day: day.replace(day=1),
    "quarter": lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
    "year": lambda day: day.replace(month=1, day=1),
}
# Whose clocks went back over midnight from after it, jumped over it, left out a day, or did so in the south or far east.
ODD = ["America/St_Johns", "America/Goose_Bay", "America/Moncton", "Antarctica/Casey", "Antarctica/Vostok", "Pacific/Apia",
       "Africa/Cairo", "America/Sao_Paulo", "America/Havana", "Asia/Tehran", "Pacific/Rarotonga", "Europe/Berlin", "UTC"]  # fmt: skip
# EET and WET are other zones' names in some versions of the database, and have clocks of their own in others, such as Polars'.
ZONES = sorted(available_timezones() - {"Factory", "localtime", "EET", "WET"})
AROUND = [-DAY, *(timedelta(minutes=m) for m in (-180, -60, -31)), timedelta(microseconds=-1), timedelta(0)]


def segments(zone):
    """The spans of time in which clocks of a zone have one offset: their beginnings, and the offsets."""
    found, time = [(FIRST - 400 * DAY, FIRST.astimezone(zone).utcoffset())], FIRST
    while time < LAST:
        before, following = time.astimezone(zone).utcoffset(), time + DAY
        if before != following.astimezone(zone).utcoffset():
            low, high = int(time.timestamp()), int(following.timestamp())
            while high - low > 1:
                middle = (low + high) // 2
                same = datetime.fromtimestamp(middle, UTC).astimezone(zone).utcoffset() == before
                low, high = (middle, high) if same else (low, middle)
            change = datetime.fromtimestamp(high, UTC)
            found.append((change, change.astimezone(zone).utcoffset()))
        time = following
    return found


def begin(day, spans):
    """The moment from which on the date is this day or later."""
    midnight = datetime.combine(day, MIDNIGHT, UTC)
    ends = [start for start, _ in spans[1:]] + [LAST + 400 * DAY]
    near = [
        (start, end, offset) for (start, offset), end in zip(spans, ends, strict=True) if start < midnight + 2 * DAY
    ]
    return max(min(end, midnight - offset) for start, end, offset in near[-4:] if start < midnight - offset)


@pytest.mark.parametrize("zone", ZONES if ALL else ODD)
def test_periods_follow_one_another_and_have_the_events_of_their_days(zone, record_property):
    clock = ZoneInfo(zone)
    spans = segments(clock)
    draw = np.random.default_rng(1).integers(0, int((LAST - FIRST) / timedelta(seconds=1)), 40)
    times = {FIRST + timedelta(seconds=int(one)) for one in draw}
    times |= {start + sign * by for start, _ in spans[1:] for by in AROUND for sign in (-1, 1)}
    frame = pl.DataFrame(
        {"time": to_times(np.array([int((one - FIRST) / timedelta(microseconds=1)) for one in sorted(times)]))}
    )
    for period, first_day in FIRST_DAYS.items():
        calendar = Calendar(period, zone)
        start = calendar.start(pl.col("time"))
        found = frame.with_columns(start=start).with_columns(end=calendar.end(pl.col("start")))
        assert found.filter(~((pl.col("start") <= pl.col("time")) & (pl.col("time") < pl.col("end")))).is_empty()
        following = found.select(time=pl.col("end")).with_columns(start=start)
        assert following.filter(pl.col("time") != pl.col("start")).is_empty()
        last = found.select("start", time=pl.col("end") - timedelta(microseconds=1)).with_columns(again=start)
        assert last.filter(pl.col("start") != pl.col("again")).is_empty()
        begins = {}
        for time, got in found.select("time", "start").rows():
            # The day itself, or the one before where clocks go back to that.
            days = (first_day(time.astimezone(clock).date()), first_day(first_day(time.astimezone(clock).date()) - DAY))
            for day in days:
                if day not in begins:
                    begins[day] = begin(day, spans)
            assert got == next(begins[day] for day in days if begins[day] <= time), (period, time)
    record_property("cases", len(times) * len(FIRST_DAYS))


def test_an_event_between_two_midnights_is_of_the_day_before_and_not_late():
    click = pa.schema(
        [pa.field("user", pa.string(), nullable=False), pa.field("at", pa.timestamp("us", "UTC"), nullable=False)]
    )
    job = windows(
        "w",
        Stream("clicks", click, event_time="at"),
        {"n": count()},
        key="user",
        length=Calendar("day", "America/St_Johns"),
    )
    # 00:00:30, 23:30 of the day before, and 00:00:30 again: clocks go back at 00:01.
    times = [datetime(2010, 11, 7, hour, minute, 30, tzinfo=UTC) for hour, minute in ((2, 30), (3, 0), (3, 30))]
    runs = [pl.DataFrame({"user": ["ann"], "at": [time]}, schema=pl.Schema(click)) for time in times]
    harness = play(job, runs, times[-1] + 3 * DAY)
    assert harness.written["late.w"].is_empty()
    assert harness.written["w"].sort("window_start")["n"].to_list() == [2, 1]
