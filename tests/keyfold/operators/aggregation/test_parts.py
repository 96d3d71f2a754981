"""Aggregates that are kept in parts are those of all values of a group, in any order, any split into runs, slices and parts."""

import math
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import Misconfigured, Stream
from keyfold.operators import (
    between,
    collect,
    count_distinct,
    first,
    last,
    mean,
    quantile,
    sessions,
    sum,
    totals,
    windows,
)
from keyfold.operators.aggregation.parts import TooManyValuesError
from keyfold.testing import merged, play
from tests.examples import examples
from tests.on_a_grid import many_of

TIME = pa.timestamp("us", tz="UTC")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
READ = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("room", pa.string(), nullable=False),
        pa.field("at", TIME, nullable=False),
        ("heat", pa.float64()),
        ("people", pa.int64()),
    ]
)
READINGS = Stream("readings", READ, event_time="at", event_id=("id",))
OF = {
    "heat_sum": sum("heat"),
    "heat_mean": mean("heat"),
    "people_mean": mean("people"),
    "heat_first": first("heat"),
    "people_last": last("people"),
    "crowds": count_distinct("people"),
    "median": quantile("people", 0.5),
    "all_people": collect("people"),
}
OPERATORS = {
    "windows": lambda: windows("w", READINGS, OF, key="room", length="1h"),
    "overlapping windows": lambda: windows("w", READINGS, OF, key="room", length="1h", every="30m"),
    "sessions": lambda: sessions("w", READINGS, OF, key="room", gap="10h"),
    "totals": lambda: totals("w", READINGS, OF, key="room"),
}
# All in one window and one session, at few moments.
ROW = st.tuples(
    st.sampled_from("ab"),
    st.integers(0, 3).map(lambda step: NOON + step * timedelta(minutes=5)),
    st.none()
    | st.floats(-1e3, 1e3)
    | st.sampled_from([1e300, -1e300, 5e-324, -0.0, 1 / 3, 2.0**-40, 2.0**32, 2.0**31]),
    st.none() | st.integers(-5, 5),
)


def readings(rows):
    kinds = {"room": pl.String, "at": pl.Datetime("us", "UTC"), "heat": pl.Float64, "people": pl.Int64}
    return pl.DataFrame(rows, schema=kinds, orient="row").with_row_index("id").cast({"id": pl.Int64})


def by_hand(rows):
    """The aggregates of each room, by plain Python."""
    rooms, found = defaultdict(list), {}
    for row in rows:
        rooms[row[0]].append(row)
    for room, events in rooms.items():
        # Simultaneous events by the columns that the job reads, missing values first.
        events.sort(key=lambda one: (one[1], *((value is not None, value or 0) for value in one[2:])))
        heats = [one[2] for one in events if one[2] is not None]
        people = [one[3] for one in events if one[3] is not None]
        total, ordered = Fraction(0), sorted(people)
        for heat in heats:
            total += Fraction(heat)
        middle = len(ordered) // 2
        halves = ordered[middle - 1 + len(ordered) % 2 : middle + 1]
        found[room] = {
            "heat_sum": total,
            "heat_mean": total / len(heats) if heats else None,
            "people_mean": math.fsum(people) / len(people) if people else None,
            "heat_first": events[0][2],
            "people_last": events[-1][3],
            "crowds": len({*people}),
            "median": math.fsum(halves) / len(halves) if halves else None,
            "all_people": [one[3] for one in sorted(events, key=lambda one: (one[1], one[3] is not None, one[3] or 0))],
        }
    return found


@examples(200)
@given(st.data(), many_of(ROW, 12), st.sampled_from(list(OPERATORS)), st.integers(1, 3))
def test_aggregates_are_those_of_all_values_in_any_order_and_split(data, rows, operator, parts):
    job, came = OPERATORS[operator](), readings(rows)
    shuffled = came[data.draw(st.permutations(range(came.height)))]
    cut = data.draw(st.integers(0, came.height))
    written = []
    # What is in open state has not been written, so later runs are not late.
    for runs in ([came], [shuffled[:cut], shuffled[cut:]]):
        harness = play(job, runs, NOON + timedelta(days=2), parts, [])
        table = merged(harness, job, "w") if operator == "totals" else harness.written["w"]
        written.append(table.sort("room", *[one for one in table.columns if one.startswith("window")]))
    assert written[0].equals(written[1])
    expected = by_hand(rows)
    for row in written[0].to_dicts():
        wanted = expected[row["room"]]
        largest = max((abs(one[2]) for one in rows if one[0] == row["room"] and one[2] is not None), default=0)
        for name in OF:
            got, right = row[name], wanted[name]
            if name in ("heat_sum", "heat_mean") and right is not None:
                # Rounded once; what is 64 bits below the largest value, or below all scales, is left out.
                left_out = Fraction(largest) * Fraction(2) ** -60 + Fraction(2) ** -1050
                assert abs(Fraction(got) - right) <= abs(right) * Fraction(2) ** -52 + left_out
            else:
                assert got == right, name


@pytest.mark.parametrize(
    ("heats", "told"),
    [
        ([1.0, math.inf], math.inf),
        ([-math.inf, 1.0], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
    ],
)
def test_a_sum_with_values_that_are_not_finite_is_python_s(heats, told):
    came = readings([("a", NOON, heat, None) for heat in heats])
    harness = play(OPERATORS["windows"](), [came[:1], came[1:]], NOON + 2 * HOUR, 1, [])
    (got,) = harness.written["w"]["heat_sum"]
    assert str(got) == str(told)


def test_more_values_than_are_kept_are_an_error_with_what_to_do():
    job = windows("w", READINGS, {"crowds": count_distinct("people", at_most=3)}, key="room", length="1h")
    three = readings([("a", NOON, None, number % 3) for number in range(9)])
    assert play(job, [three], NOON + 2 * HOUR, 1, []).written["w"]["crowds"].to_list() == [3]
    with pytest.raises(
        TooManyValuesError, match=r"crowds has 4 values in one group, and keeps at most 3: give a larger at_most"
    ):
        play(job, [three, readings([("a", NOON, None, 7)])], NOON + 2 * HOUR, 1, [])


@pytest.mark.parametrize(
    ("of", "told"),
    [
        ({"x": mean("room")}, "job w: x: String is no number"),
        ({"x": mean("heet")}, "job w: x.*heet"),
        ({"x": between(pl.col("people"))}, "job w: x: between is for sessions_until"),
        ({"x": mean("heat"), "x_n": sum("people")}, "job w: x_n: two aggregates need a column of this name"),
    ],
)
def test_an_aggregate_that_does_not_fit_is_refused_where_the_job_is_made(of, told):
    with pytest.raises(Misconfigured, match=told):
        windows("w", READINGS, of, key="room", length="1h")
    with pytest.raises(Misconfigured, match="a quantile is from 0 to 1"):
        quantile("heat", 50)
