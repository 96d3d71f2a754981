"""Clocks: a jump is said once and not followed, silence moves event time by bounded ticks."""

from datetime import UTC, datetime, timedelta

import pytest

from keyfold.journal.clock import Reading, ignore_jumps

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def reading(wall, uptime, boot="this", offset=0.0):
    return Reading(wall=wall, uptime=uptime, boot=boot, offset=offset)


@pytest.mark.parametrize(("jump", "told"), [(timedelta(days=365), "ahead by 365 days"), (-HOUR, "back by 1:00:00")])
def test_a_jump_of_the_clock_is_said_once_and_not_followed(jump, told):
    before = reading(NOON, 100)
    jumped, warning = ignore_jumps(before, reading(NOON + jump + timedelta(seconds=60), 160))
    assert jumped.time == NOON + timedelta(seconds=60)
    assert told in (warning or "")
    later, warning = ignore_jumps(jumped, reading(NOON + jump + timedelta(seconds=120), 220))
    assert (later.time, warning) == (NOON + timedelta(seconds=120), None)


def test_after_a_restart_or_on_another_machine_the_clock_is_taken_as_it_is():
    assert ignore_jumps(reading(NOON, 100), reading(NOON + 50 * HOUR, 3, boot="another"))[0].time == NOON + 50 * HOUR
