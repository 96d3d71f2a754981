"""The durations that a job declares are found, wherever it declares them."""

import inspect
from datetime import timedelta

import polars as pl
import pytest

from keyfold import Append, Input, KeyedJob, Step, Stream, operators, required
from keyfold.keyed.job.parameters import Duration, EventTimeParameters, Window, WindowShape
from keyfold.keyed.job.per_key import KeyAnswer, per_key
from keyfold.testing.durations import durations_of, silences_of
from spark_jobs.jobs.registry import JOBS
from tests.keyfold.operators.every_operator import EVERY_OPERATOR

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
PRIMES = [number * SECOND for number in (101, 103, 107, 109)]


@pytest.mark.parametrize("name", EVERY_OPERATOR)
def test_every_duration_of_an_operator_is_found(name):
    case = EVERY_OPERATOR[name]
    assert set(durations_of(case.of(PRIMES))) >= set(PRIMES[: len(case.durations)])


def test_every_argument_of_an_operator_that_is_a_duration_is_in_some_case():
    for operator in (getattr(operators, name) for name in operators.__all__):
        if inspect.isfunction(operator):
            arguments = {
                name
                for name, declared in inspect.signature(operator).parameters.items()
                if any(kind in str(declared.annotation) for kind in ("timedelta", "Timeout", "Window"))
            }
            cases = [case for name, case in EVERY_OPERATOR.items() if name.split()[0] == operator.__name__]
            assert arguments <= {name for case in cases for name in case.durations}, operator.__name__


USER, AT = required("user", pl.String, "Who"), required("at", pl.Datetime("us", "UTC"), "When")
CLICKS = Stream("clicks", [USER, AT], event_time="at")
PAUSE, UNUSED = 11 * MINUTE, 12 * MINUTE


def ended(state: pl.DataFrame, after: timedelta = 13 * MINUTE) -> pl.DataFrame:
    return state.filter(pl.col("deadline") > pl.col("deadline") - after)


def of_a_closure(length: timedelta):
    def step(state, events, clock):
        late = [row for row in events.rows() if row[1] > clock.watermark - PAUSE - length - timedelta(minutes=14)]
        return Step(state=ended(state), output=events.head(len(late)))

    return step


class Counting:
    """A step that is an object, with a duration of its own and one that its method names."""

    def __init__(self) -> None:
        self.longest = "15m"

    def __call__(self, state, events, clock):
        return Step(state=state.filter(pl.col("deadline") > clock.watermark - PAUSE))


def handled(key, state, events, clock):
    return KeyAnswer(state=[{"deadline": clock.watermark + timedelta(minutes=16)}])


def job_of(step, **settings) -> KeyedJob:
    hour = pl.col("at").dt.truncate("17m")
    source = Input(CLICKS.derive(hour=hour), delay="18m", final_at=pl.col("hour") + 19 * MINUTE, idle_timeout="20m")
    return KeyedJob(
        "made", source, "user", {"deadline": pl.Datetime("us", "UTC")}, step, Append([USER, AT]), **settings
    )


OF_INPUT = {17 * MINUTE, 18 * MINUTE, 19 * MINUTE, 20 * MINUTE}


@pytest.mark.parametrize(
    ("step", "minutes"),
    [
        pytest.param(of_a_closure(10 * MINUTE), {10, 11, 13, 14}, id="a function"),
        pytest.param(Counting(), {11, 15}, id="an object"),
        pytest.param(per_key(handled), {16}, id="a handler of keys"),
    ],
)
def test_durations_of_a_hand_written_step_are_found_and_those_that_it_does_not_use_are_not(step, minutes):
    assert set(durations_of(job_of(step))) == OF_INPUT | {number * MINUTE for number in minutes}


class Parameters(EventTimeParameters):
    silence: Duration = 21 * MINUTE
    window: Window = WindowShape(22 * MINUTE, 11 * MINUTE)


def test_durations_of_parameters_are_found():
    found = durations_of(
        job_of(Counting(), parameters=Parameters.model_validate({"silence": "23m", "idle_timeout": "24m"}))
    )
    assert {23 * MINUTE, 22 * MINUTE, 11 * MINUTE, 24 * MINUTE} <= set(found)
    assert 21 * MINUTE not in found


def test_silences_are_a_tick_below_each_duration_at_it_above_it_and_ten_times_of_it():
    tick = timedelta(microseconds=1)
    silences = silences_of(EVERY_OPERATOR["sessions"].of([HOUR]))
    delay = 2 * MINUTE
    for duration in (HOUR, delay, HOUR + delay):
        assert {duration - tick, duration, duration + tick, 10 * duration} <= set(silences)
    assert silences == tuple(sorted(silences))


def test_the_longest_duration_has_no_silence_that_no_time_can_be_added_to():
    longest = timedelta(days=365_000)
    assert max(silences_of(EVERY_OPERATOR["sessions"].of([longest]))) <= longest + 10 * MINUTE


@pytest.mark.parametrize("name", JOBS)
def test_every_duration_of_a_shipped_jobs_parameters_is_found(name):
    job = JOBS[name]
    parameters = job.model(**job.parameters) if job.model else None
    declared = {value for _, value in (parameters or ()) if isinstance(value, timedelta) and value}
    assert declared <= set(durations_of(job))
