"""Of every stream: the counts are true, the faults are faults for their own reason, and the data are fresh."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyfold.errors import KeyfoldError
from spark_jobs.simulation import SIMULATORS, simulate
from spark_jobs.streams import SHIPPED
from tests.spark_jobs.simulation.conftest import START
from tests.spark_jobs.simulation.reading import HOUR, MINUTE, read

CALLS = pytest.mark.parametrize("number", [0, 1], ids=["first", "further"])
EVERY = pytest.mark.parametrize("stream", SHIPPED)
BOUNDS = {
    "weather": (30 * MINUTE, 3 * HOUR),
    "metrics": (MINUTE, HOUR),
    "telemetry": (MINUTE, 40 * MINUTE),
    "sales": (MINUTE, 3 * HOUR),
    "payments": (MINUTE, 15 * MINUTE),
}


@EVERY
@CALLS
def test_the_summary_counts_what_ingest_accepts_and_what_it_rejects_for_each_reason(calls, stream, number):
    call = calls(stream)[number]
    assert not [path.name for path in call.paths if path.name.startswith(".")]
    summary, found = call.summary, call.found
    assert (summary.files, summary.unreadable_files) == (found.files, found.unreadable)
    assert summary.rows == found.rows == summary.events + summary.duplicates + summary.malformed
    assert (summary.events, summary.duplicates) == (len(found.events), found.copies)
    assert summary.malformed_by_fault == found.malformed
    assert summary.malformed == found.malformed.total()
    assert min(summary.malformed_by_fault.values()) > 0


# Of points of rides test_rides.py tells which are late: it goes by their ride.
@pytest.mark.parametrize("stream", BOUNDS)
@CALLS
def test_some_events_come_out_of_order_and_few_of_them_late(calls, stream, number):
    call = calls(stream)[number]
    out_of_order, late = (call.found.behind(bound, by_key=stream == "metrics") for bound in BOUNDS[stream])
    assert (call.summary.out_of_order, call.summary.late) == (out_of_order, late)
    assert 0 < late <= out_of_order < 0.15 * call.summary.events


@EVERY
@CALLS
def test_all_events_lie_in_the_span_that_the_summary_says(calls, stream, number):
    call = calls(stream)[number]
    times = [event["time"] for event in call.found.events if event["time"] is not None]
    assert len(call.found.events) - len(times) == call.summary.untimed
    assert call.summary.start <= min(times)
    assert max(times) <= call.summary.end
    hours = SIMULATORS[stream].hours[number]
    assert max(times) - min(times) > timedelta(hours=hours) - 2 * HOUR


@EVERY
def test_the_same_arguments_write_the_same_bytes(tmp_path, stream):
    for name, seed in (("once", 5), ("again", 5), ("other", 6)):
        simulate(stream, tmp_path / name, seed=seed, start=START, hours=8, size=SIMULATORS[stream].least_size)
    once, again, other = (
        {str(path.relative_to(tmp_path / name)): path.read_bytes() for path in contents(tmp_path / name)}
        for name in ("once", "again", "other")
    )
    assert once == again
    assert set(once.values()).isdisjoint(other.values())


@EVERY
def test_without_a_start_the_data_are_fresh_and_a_second_call_goes_on_in_time(tmp_path, stream):
    first = simulate(stream, tmp_path, seed=1, compress=False)
    second = simulate(stream, tmp_path, seed=2)
    now = datetime.now(UTC)
    assert timedelta(0) <= now - first.end < timedelta(hours=8)
    assert second.start == first.end
    assert second.end <= now
    found = read(stream, tmp_path, contents(tmp_path))
    assert found.rows == first.rows + second.rows
    assert found.files == first.files + second.files
    assert len(found.events) == first.events + second.events, "events of two calls are never the same"


@EVERY
def test_little_is_enough(tmp_path, stream):
    size = SIMULATORS[stream].least_size
    made = simulate(stream, tmp_path, size=size, start=START, hours=SIMULATORS[stream].least_hours)
    found = read(stream, tmp_path, contents(tmp_path))
    assert (made.size, made.files, made.rows, made.events) == (size, found.files, found.rows, len(found.events))
    assert made.malformed_by_fault == found.malformed


@EVERY
def test_arguments_out_of_range_are_named(tmp_path, stream):
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"size": 0}, f"{SIMULATORS[stream].counted} is 0"),
        ({"hours": 0.5}, r"hours is 0\.5"),
        ({"files": 3}, "files is 3"),
        ({"start": datetime(2026, 1, 1)}, "no offset"),  # noqa: DTZ001
    ]
    for arguments, told in wrong:
        with pytest.raises(KeyfoldError, match=told):
            simulate(stream, tmp_path, **arguments)
    assert not list(tmp_path.iterdir())


def test_a_stream_that_cannot_be_simulated_is_named_with_those_that_can(tmp_path):
    with pytest.raises(KeyfoldError, match="no stream 'tides'; streams there: ride_points, weather"):
        simulate("tides", tmp_path)


def test_every_stream_that_is_shipped_can_be_simulated():
    assert set(SIMULATORS) == set(SHIPPED)


def contents(folder):
    return [path for path in folder.rglob("*") if path.is_file()]
