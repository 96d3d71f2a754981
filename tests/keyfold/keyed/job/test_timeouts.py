"""Timeouts: in processing time a key closes before what comes after, leaves whole, and is renewed by what came."""

from datetime import timedelta

import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.step import PROCESSING_DEADLINE, Clock
from keyfold.keyed.job.timeouts import Timeout
from tests.shop import NOON

TIME = pl.Datetime("us", "UTC")
KEY = ("user",)
SILENCE = Timeout(timedelta(seconds=30), "processing_time")
IN_EVENT_TIME = Timeout(timedelta(seconds=30))


def after(seconds):
    return NOON + timedelta(seconds=seconds)


def clock(seconds, watermark=0):
    return Clock(after(watermark), after(watermark), after(seconds))


def kept(*rows):
    """Rows of (user, clicks, seconds after NOON at which they are stale)."""
    times = [None if seconds is None else after(seconds) for *_, seconds in rows]
    return pl.DataFrame(
        {"user": [row[0] for row in rows], "clicks": [row[1] for row in rows], PROCESSING_DEADLINE: times},
        schema={"user": pl.String, "clicks": pl.Int64, PROCESSING_DEADLINE: TIME},
    )


def heard(*users):
    return pl.DataFrame({"user": users}, schema={"user": pl.String})


def processing_deadline(rows):
    return {
        user: None if time is None else (time - NOON).total_seconds()
        for user, time in rows.select("user", PROCESSING_DEADLINE).rows()
    }


def test_a_key_is_over_at_the_very_moment_and_not_before():
    state = kept(("ann", 1, 30), ("bob", 2, 31))
    assert not SILENCE.has_run_out(state, clock(29))
    assert SILENCE.has_run_out(state, clock(30))
    assert not IN_EVENT_TIME.has_run_out(state, clock(30))


def test_what_came_renews_all_rows_of_its_key_and_no_other():
    before = kept(("ann", 1, 40), ("bob", 1, 45))
    state = pl.concat([before, kept(("ann", 2, None))])
    renewed = SILENCE.renew(state, before, heard("ann", "ann"), KEY, clock(20))
    assert renewed.columns == state.columns
    assert processing_deadline(renewed) == {"ann": 50, "bob": 45}
    assert renewed["clicks"].to_list() == [1, 1, 2]


def test_a_clock_that_went_back_takes_no_time_from_a_key():
    before = kept(("ann", 1, 100))
    assert processing_deadline(SILENCE.renew(before, before, heard("ann"), KEY, clock(10))) == {"ann": 100}


def test_when_a_key_is_due_is_said_by_the_event_in_event_time_and_by_the_batch_in_processing_time():
    events = pl.DataFrame({"at": [after(5)]})
    assert events.select(IN_EVENT_TIME.due_at(pl.col("at"), clock(100))).item() == after(35)
    assert events.select(SILENCE.due_at(pl.col("at"), clock(100))).item() == after(130)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"after": timedelta(0)}, "a timeout: after is 0:00:00: it must be positive"),
        ({"after": timedelta(1), "in_": "arrival"}, "in_ is 'arrival'; it must be one of event_time, processing_time"),
    ],
)
def test_what_is_no_timeout_is_refused(arguments, message):
    with pytest.raises(KeyfoldError, match=message):
        Timeout(**arguments)
