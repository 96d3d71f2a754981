"""Clocks: a jump is said once and not followed, silence moves event time by bounded ticks."""

from datetime import UTC, datetime, timedelta

import pytest

from keyfold.journal.clock import Reading, Silence, idle_after_warning, ignore_jumps, read_clock, silent_event_time

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def reading(wall, uptime, boot="this", offset=0.0):
    return Reading(wall=wall, uptime=uptime, boot=boot, offset=offset)


def test_a_machine_s_clock_and_uptime_go_on_together():
    first, second = read_clock(), read_clock()
    assert ignore_jumps(first, second) == (second, None)
    assert second.uptime >= first.uptime


@pytest.mark.parametrize(("jump", "told"), [(timedelta(days=365), "ahead by 365 days"), (-HOUR, "back by 1:00:00")])
def test_a_jump_of_the_clock_is_said_once_and_not_followed(jump, told):
    before = reading(NOON, 100)
    jumped, warning = ignore_jumps(before, reading(NOON + jump + timedelta(seconds=60), 160))
    assert jumped.time == NOON + timedelta(seconds=60)
    assert told in (warning or "")
    later, warning = ignore_jumps(jumped, reading(NOON + jump + timedelta(seconds=120), 220))
    assert (later.time, warning) == (NOON + timedelta(seconds=120), None)


def test_a_clock_that_is_set_right_again_is_followed_again():
    jumped, _ = ignore_jumps(reading(NOON, 100), reading(NOON + 9000 * HOUR, 100))
    right, warning = ignore_jumps(jumped, reading(NOON + timedelta(seconds=30), 130))
    assert (right.time, right.offset, warning) == (NOON + timedelta(seconds=30), 0.0, None)


def test_after_a_restart_or_on_another_machine_the_clock_is_taken_as_it_is():
    assert ignore_jumps(reading(NOON, 100), reading(NOON + 50 * HOUR, 3, boot="another"))[0].time == NOON + 50 * HOUR


def test_a_silent_stream_s_event_time_goes_on_from_its_newest_event():
    silence = Silence(newest=NOON, arrived_at=NOON + HOUR)
    assert silent_event_time(silence, NOON + 2 * HOUR, timedelta(minutes=61), None) is None
    assert silent_event_time(silence, NOON + 3 * HOUR, HOUR, None) == NOON + 2 * HOUR
    assert silent_event_time(silence, NOON + 3 * HOUR, None, None) is None
    assert silent_event_time(None, NOON, HOUR, None) is None


def test_one_tick_moves_event_time_by_a_day_at_most():
    silence = Silence(newest=NOON, arrived_at=NOON)
    week = NOON + timedelta(days=7)
    first = silent_event_time(silence, week, HOUR, None)
    assert first == NOON + timedelta(days=1)
    assert silent_event_time(silence, week, HOUR, first) == NOON + timedelta(days=2)


def test_an_idle_after_below_the_usual_gap_is_warned_of():
    hourly = [NOON + number * HOUR for number in range(6)]
    assert "idle_after is 0:10:00" in (idle_after_warning(timedelta(minutes=10), hourly) or "")
    assert idle_after_warning(2 * HOUR, hourly) is None
    assert idle_after_warning(None, hourly) is None
    assert idle_after_warning(timedelta(minutes=10), hourly[:3]) is None
