"""Alerts that wait: rows are written once a condition has held for a time, and not while it cools down; against plain Python."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyfold import Misconfigured, Stream, TestHarness, required
from keyfold.operators import Held, alert
from tests.examples import examples

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
READINGS = Stream("readings", {"at": pl.Datetime("us", "UTC"), "celsius": pl.Int64}, event_time="at")
READINGS = Stream("readings", [required("room", pl.String, "Where"), *READINGS.schema], event_time="at")
WARM, COLD = pl.col("celsius") > 60, pl.col("celsius") < 20


def minutes(count):
    return NOON + timedelta(minutes=count)


def warnings(held_for, cool_down):
    hot = Held(WARM, COLD, held_for=f"{held_for}m", cool_down=f"{cool_down}m")
    return alert("warnings", READINGS, {"HOT": hot, "WARM": Held(WARM, COLD)}, key="room")


def expected(readings, held_for, cool_down, passed):
    """The rows as (room, at, celsius, change, began_at), in minutes, once the watermark has passed so many."""
    rows = []
    for room in "ab":
        began = rested = None
        mine = sorted((at, celsius) for one, at, celsius in readings if one == room)
        # Nothing ends at the watermark, but what has held for long enough is written.
        for at, celsius in [*mine, (passed, None)]:
            if celsius is not None and celsius > 60:
                began = began or (at, celsius)
            elif began and (celsius is None or celsius < 20):
                if at - began[0] >= held_for:
                    if rested is None or began[0] - rested >= cool_down:
                        rows.append((room, *began, "BEGAN", began[0]))
                        rows += [(room, at, celsius, "ENDED", began[0])] * (celsius is not None)
                    rested = at
                began = None
    return sorted(rows)


MINUTE = st.integers(0, 12)
READING = st.tuples(st.sampled_from("ab"), MINUTE, st.sampled_from([0, 10, 40, 70, 90]))


# The cool-down has passed while it is not known yet whether what began in it holds.
@example([("a", 0, 70), ("a", 2, 10), ("a", 4, 70)], 2, 3, [5], 0)
@examples(400)
@given(
    st.lists(READING, min_size=6, max_size=25),
    st.integers(0, 2),
    st.integers(0, 3),
    st.lists(MINUTE, max_size=4),
    MINUTE,
)
def test_a_condition_is_written_once_it_has_held_and_not_while_it_cools_down(readings, held_for, cool_down, cuts, more):
    harness, before = TestHarness(warnings(held_for, cool_down)), -1
    for until in [*sorted(cuts), 12 + more]:
        came = [one for one in readings if before < one[1] <= until]
        rows = [(room, minutes(at), celsius) for room, at, celsius in came]
        harness.batch(
            pl.DataFrame(rows, ["room", "at", "celsius"], orient="row") if rows else None, advance_to=minutes(until)
        )
        before = until
    for name, times in (("HOT", (held_for, cool_down)), ("WARM", (0, 0))):
        found = (
            harness.written["warnings"].filter(alert=name).select("room", "at", "celsius", "change", "began_at").rows()
        )
        wanted = expected(readings, *times, 12 + more)
        assert sorted(found) == [(one, minutes(at), c, what, minutes(since)) for one, at, c, what, since in wanted]
    assert harness.written["late.warnings"].height == 0
    harness.assert_nothing_lost()
    # What no longer matters is not kept: per room a count, an open or pending condition of each, and one end that rests.
    assert harness.state.height <= 2 * 4


def test_a_length_that_is_none_is_refused_where_the_alert_is_made():
    with pytest.raises(Misconfigured, match="held: held_for is 'long'"):
        alert("warnings", READINGS, {"HOT": Held(WARM, COLD, held_for="long")}, key="room")
