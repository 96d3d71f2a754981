"""Jobs of one stream give the rows of plain Python, whatever the order, the split into runs and slices, what is late, and the clock."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import KeyedJob, TestHarness, build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import assert_same, play, silences_of
from keyfold.testing.durations import times_apart
from spark_jobs.jobs.registry import JOBS
from tests.examples import examples
from tests.on_a_grid import assert_nothing_is_due, many_of, moments, on_grid
from tests.shop import NOON
from tests.spark_jobs.jobs import answers
from tests.spark_jobs.jobs.anomaly_predictions.metrics import WAYS, metric
from tests.spark_jobs.jobs.batches import assert_close, in_batches
from tests.spark_jobs.jobs.events import payment, ride_point, telemetry_point, weather_reading
from tests.spark_jobs.jobs.fences import FENCES, feature, fenced_point, write
from tests.spark_jobs.jobs.fleet_days_oracle import trip
from tests.spark_jobs.jobs.in_order_oracle import Event, runs_of
from tests.spark_jobs.jobs.sales_data import sale

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
KINDS = st.sampled_from(["event_time", "processing_time"])


@dataclass(frozen=True)
class Case:
    """A job under test.

    Attributes:
        name: the job's.
        events: draws what an event says; the first of it is when, in units of time.
        make: makes an event of its number and of what was drawn.
        oracle: gives the answer, of runs and of settings.
        settings: draws parameters.
        by_runs: says of settings whether the answer depends on what came together, also where nothing is late.
        last: the longest times, in units.
        step: between most times.
        unit: of time.
        close: how near floats are to those of the oracle.
        is_summed_by_calls: whether state sums the events up to the watermark of a key's last call, so that it depends on what came
            last to which key.
    """

    name: str
    events: st.SearchStrategy[tuple]
    make: Callable[..., Event]
    oracle: Callable[..., answers.Answer]
    settings: st.SearchStrategy[dict[str, Any]] = field(default_factory=lambda: st.just({}))
    by_runs: Callable[[dict[str, Any]], bool] = lambda given: False
    last: int = 60
    step: int = 5
    unit: timedelta = MINUTE
    close: tuple[float, float] = (1e-12, 1e-12)
    is_summed_by_calls: bool = False


def settings(**of: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {name: one if isinstance(one, st.SearchStrategy) else st.just(one) for name, one in of.items()}
    )


def units(last: int, step: int, unit: timedelta = MINUTE) -> st.SearchStrategy[timedelta]:
    return on_grid(last, step, 1).map(lambda number: number * unit)


MINUTES, ITEMS = moments(60, 5), st.sampled_from(["cup", "hat", "pot"])
PLACES = st.tuples(st.integers(-2, 13), st.integers(-2, 10))
OF_SALES = {"stream": "sales", "key": "item"}
AMOUNT = st.integers(0, 10**9).map(lambda millionths: millionths / 1e6)
FEW = st.sampled_from([None, [], ["a"], ["a", "b"]])
INDEXED = st.tuples(MINUTES, ITEMS, st.integers(0, 2), st.sampled_from([None, 0.5, 1.0]), FEW)


def of_sale(_: int, at: float, item: str, quantity: int, price: float | None, models: list | None = None) -> Event:
    return sale(item, quantity, at, price=price, models=models)


METRIC = st.one_of(st.integers(8, 12), st.integers(8, 12), st.sampled_from([-0.0, 0, 100, -50, 1e9]))
VALUE = st.none() | st.floats(-100, 1100)
AVERAGED = st.integers(1, 5).flatmap(
    lambda length: settings(
        n_readings=length, min_readings=st.integers(1, length), timeout=units(12, 3, HOUR), timeout_in=KINDS
    )
)
EXPIRING = {"order": st.sampled_from(["arrival", "event_time"]), "expire_after": units(30, 5), "timeout_in": KINDS}
CASES = {
    "averages": Case(
        "moving_averages",
        st.tuples(moments(60, 3, seconds=3600), VALUE, VALUE, st.sampled_from("abc")),
        lambda _, *one: weather_reading(*one),
        answers.averages,
        AVERAGED,
        last=60,
        step=3,
        unit=HOUR,
    ),
    "trips": Case(
        "vehicle_trips",
        st.tuples(
            moments(120, 5),
            st.sampled_from([0.0, 0.0, 3.0, 3.1, 50.0, 80.0]),
            st.none() | st.integers(0, 600).map(lambda decilitres: decilitres / 10),
            st.floats(-80, 80),
            st.floats(-180, 180),
            st.none() | st.sampled_from([-8.0, -3.5, -3.4, 0.0, 2.9, 3.0, 5.0]),
            st.none() | st.integers(-20, 130).map(float),
            st.sampled_from("aab"),
        ),
        lambda _, *one: telemetry_point(*one),
        answers.trips,
        settings(stop_after=units(20, 5), silence=units(20, 5), timeout_in=KINDS),
        last=120,
        close=(1e-7, 1e-3),
    ),
    "rides": Case(
        "ride_summaries",
        st.tuples(
            moments(240, 10), st.sampled_from("abc"), st.sampled_from(["pickup", *["enroute"] * 3, "dropoff"])
        ),
        # Numbered in another order than they come in, so that ties are not in order already.
        lambda number, at, ride, status: ride_point(ride, number * 7 % 41, at, status),
        answers.rides,
        settings(close=st.sampled_from(["fast", "complete"]), timeout_in=KINDS, closed_for=HOUR),
        lambda given: given["close"] == "fast",
        last=240,
        step=10,
        close=(1e-7, 1e-3),
        is_summed_by_calls=True,
    ),
    "totals of purchases": Case(
        "purchase_totals",
        st.tuples(
            MINUTES,
            ITEMS,
            st.integers(-3, 3),
            st.none(),
            st.none() | st.lists(st.none() | st.sampled_from(["", "a", "b", "Ü", "\0"]), max_size=3),
        ),
        of_sale,
        answers.purchases,
        settings(**EXPIRING) | settings(**EXPIRING | {"expire_after": None, "timeout_in": "event_time"}),
        lambda given: given["order"] == "arrival" or given["expire_after"] is not None,
    ),
    "numbers of events": Case(
        "event_index", INDEXED, of_sale, answers.indexes,
        settings(**OF_SALES, expire_after=units(20, 5), timeout_in=KINDS),
    ),
    "numbers in windows": Case(
        "event_index", INDEXED, of_sale, answers.windowed_indexes,
        settings(**OF_SALES, window=st.sampled_from(["10m every 10m", "10m every 5m", "10m every 3m", "30m every 1m"])),
    ),
    "top products": Case(
        "top_products",
        # Few quantities, so that products tie.
        st.tuples(moments(180, 10), ITEMS, st.integers(-2, 2), st.sampled_from([None, 0.0, 0.1, 2.55, 1e6])),
        of_sale,
        answers.top,
        settings(window=st.sampled_from([20 * MINUTE, HOUR, 90 * MINUTE]), k=st.integers(1, 4)),
        last=180,
        step=10,
    ),
    "totals of models": Case(
        "model_totals",
        st.tuples(MINUTES, st.just("cup"), st.integers(-3, 9), st.none(),
                  st.none() | st.lists(st.sampled_from(["a", "b", "c", "", None]), max_size=4)),
        of_sale,
        answers.models,
    ),
    "days": Case(
        "fleet_days",
        # Over the night in which clocks are set in Berlin.
        st.tuples(
            moments(36 * 60, 30), AMOUNT, AMOUNT, AMOUNT, st.none() | AMOUNT, st.sampled_from(["bus-7", "cab"])
        ),
        lambda _, *one: trip(*one),
        answers.days,
        settings(timezone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/New_York"])),
        last=36 * 60,
        step=30,
    ),
    "warnings": Case(
        "fleet_warnings",
        st.tuples(
            moments(120, 5),
            st.none() | st.sampled_from([5.0, 9.5, 10.0, 11.0, 12.0, 40.0]),
            st.none() | st.sampled_from([80.0, 105.0, 107.0, 110.0, 111.0, 130.0]),
            PLACES,
            st.sampled_from("aab"),
        ),
        lambda _, *one: fenced_point(*one),
        answers.warnings,
        # None of them about as far as a fenced_point can lie from a border: 34, 55, 65 and 102 m or more.
        settings(geofence_margin=st.sampled_from([0, 20, 45, 80])),
        last=120,
    ),
    "pairs of payments": Case(
        "card_in_two_cities",
        st.tuples(moments(30, 5), st.sampled_from("ab"), st.sampled_from(["Ulm", "Trier", "Mainz"])),
        lambda number, at, card, city: payment(number, card, at, city),
        answers.pairs,
        last=30,
    ),
    "predictions": Case(
        "anomaly_predictions",
        # Near one another, and far apart; values often alike.
        st.sampled_from([moments(300, 30), moments(9000, 180)]).flatmap(
            lambda minutes: st.tuples(minutes, st.sampled_from("abc"), METRIC)
        ),
        lambda _, at, key, value: metric(key, at, value),
        answers.predictions,
        st.sampled_from([7 * MINUTE, HOUR, timedelta(days=1)]).flatmap(
            lambda period: settings(
                model="ewma",
                interval=period,
                window=period,
                learn=st.sampled_from(WAYS),
                emit=st.sampled_from(["changes", "all"]),
                min_change=st.sampled_from([0.0, 0.2, 1.0]),
                threshold=st.sampled_from([0.0, 0.5, 0.9]),
                min_events=st.integers(0, 5),
                forget_after=st.sampled_from([30 * MINUTE, 3 * HOUR, timedelta(days=2)]),
            )
        ),
        last=600,
        step=30,
        close=(1e-9, 1e-9),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def geofences(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fences")
    return write(folder / "fences.geojson", [feature(name, polygons) for name, polygons in FENCES.items()])


@pytest.mark.parametrize("name", CASES)
@examples(300, shrinks=False)
@given(data=st.data())
def test_any_history_gives_the_rows_of_plain_python(geofences, name, data):
    case = CASES[name]
    drawn, given = data.draw(many_of(case.events, 40)), data.draw(case.settings)
    given |= {"geofences": geofences} if name == "warnings" else {}
    delayed = {"delay": data.draw(on_grid(case.last // 3, case.step)) * case.unit}
    job = build_job(JOBS[case.name], {**given, **(delayed if takes_delay(case.name) else {})})
    delay = job.only_input.watermark_delay
    if data.draw(st.booleans()):
        drawn = at_silences(job, case, drawn, data.draw(st.integers(0, 2**32)))
    events, time = [case.make(number, *one) for number, one in enumerate(drawn)], job.event_time
    # Without a delay what comes together is late together, or not.
    is_in_time, chance = bool(delay) and data.draw(st.booleans()), data.draw(st.randoms(use_true_random=False))
    if is_in_time:
        events.sort(key=lambda one: one[time] + chance.uniform(0, 0.999) * delay)
    batches = in_batches(events, data.draw(st.lists(st.integers(0, len(events)), max_size=5)))
    gaps = data.draw(st.lists(on_grid(case.last // 3, case.step), min_size=len(batches), max_size=len(batches)))
    times = [NOON + number * case.unit for number in accumulate(gaps)]
    moment = st.sampled_from([one[time] for one in events])
    cuts, end = data.draw(st.lists(moment, max_size=5)), None
    is_by_event_time = given.get("timeout_in") != "processing_time"
    if is_by_event_time:
        end = data.draw(moment) + data.draw(on_grid(2 * case.last, case.step)) * case.unit
        end = max(end, max(one[time] for one in events) - delay)
    frames = [frame_of(job, batch) for batch in batches]
    split = data.draw(st.integers(1, 3)), cuts, times
    harness = play(job, frames, end, *split)
    runs = list(runs_of(batches, times, time, delay, end))
    assert_gives(case, job, harness, case.oracle(runs, **given))
    if is_in_time and end is not None and not case.by_runs(given):
        # Then what both lead to, when all has ended, is compared in place of the state.
        end = end + 2 * case.last * case.unit + delay if case.is_summed_by_calls else end
        harness = play(job, frames, end, *split) if case.is_summed_by_calls else harness
        assert_same(job, harness, play(job, [frame_of(job, events[::-1])], end))


def at_silences(job: KeyedJob, case: Case, drawn: list[tuple], seed: int) -> list[tuple]:
    """What was drawn, at times that are as far apart as the durations of the job, or a microsecond less or more, or ten times."""
    times = times_apart(silences_of(job) or (MINUTE,), random.Random(seed), len(drawn), NOON)
    return [((time - NOON) / case.unit, *rest) for time, (_, *rest) in zip(times, drawn, strict=True)]


def takes_delay(name: str) -> bool:
    return "delay" in JOBS[name].parameter_fields


def frame_of(job: KeyedJob, events: list[Event]) -> pl.DataFrame:
    return pl.DataFrame(events, schema=polars_schema(job.only_input.stream.event_schema))


def assert_gives(case: Case, job: KeyedJob, harness: TestHarness, answer: answers.Answer) -> None:
    for name, expected in answer.tables.items():
        rows = harness.written[name]
        columns = [column for column in rows.columns if not expected or column in expected[0]]
        wanted = [{column: one[column] for column in columns} for one in expected]
        assert_close(rows.select(columns).to_dicts(), wanted, in_an_order, rel=case.close[0], abs=case.close[1])
    late = harness.written[job.late_table]
    expected: list[Any] = [one.get(job.event_time) for one in answer.late]
    if None in expected or job.only_input.combine is not None:
        assert harness.counted()[job.late_table] == len(expected)
    else:
        assert sorted(late[job.event_time]) == sorted(expected)
    if "deadline" in harness.state.columns:
        assert_nothing_is_due(harness)


def in_an_order(row: dict[str, Any]) -> tuple:
    """By what is exact, and then by floats."""
    floats = [(value is not None, value or 0.0) for value in row.values() if isinstance(value, float | None)]
    return repr([value for value in row.values() if not isinstance(value, float | None)]), floats
