"""Of every stream: the counts are true, the faults are faults for their own reason, and the data are fresh."""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyfold.errors import KeyfoldError
from spark_jobs.simulation import SIMULATORS, simulate
from spark_jobs.streams import SHIPPED, STREAMS
from tests.keyfold.ingestion.parsing.reading import file_rows
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
REASONS = {
    "broken JSON": "not valid JSON",
    "too few fields": r"the row has \d+ fields, the header \d+",
    "quote that never closes": "not valid CSV",
    "time in the future": "past its arrival: 2(199-12-31|200-01-01)",
    "unreadable time": "is not an ISO 8601 time: half past nine",
    "unreadable invoice date": "is not an ISO 8601 time: half past nine",
    "no ride_id": "ride_id is missing",
    "unknown status": "ride_status is none of",
    "no station": "station_id is missing",
    "temperature is a word": "temp is not a finite number: cold",
    "humidity out of range": "humid is outside",
    "pressure out of range": "pressure is outside",
    "empty key": "key is empty",
    "no value": "value is missing",
    "value is a word": "value is not a finite number: plenty",
    "empty vehicle": "vehicle_id is empty",
    "no position": "longitude is missing",
    "latitude out of range": "latitude is outside",
    "speed out of range": "speed is outside",
    "fuel level is negative": "fuel_level is negative",
    "acceleration out of range": "acceleration is outside",
    "bearing out of range": "bearing is outside",
    "engine temperature out of range": "engine_temperature is outside",
    "empty item": "item is empty",
    "half a piece": r"quantity is not an integer of 64 bits: 2\.5",
    "model is a number": "models? is not a text or a list of texts",
    "no stock code": "item is missing",
    "empty card": "card is empty",
    "no city": "city is missing",
    "amount is nought": "amount is not above nought",
    "amount is a word": "amount is not a finite number: plenty",
    "quantity is a word": "quantity is not an integer of 64 bits: dozen",
}


@EVERY
@CALLS
def test_the_summary_counts_what_is_in_the_files(calls, stream, number):
    call = calls(stream)[number]
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
@CALLS
def test_ingest_accepts_the_events_and_rejects_each_fault_for_its_own_reason(calls, stream, number):
    call = calls(stream)[number]
    accepted, reasons, unreadable, keys = 0, Counter(), 0, set()
    for path in call.paths:
        for row in file_rows(STREAMS[stream], path, call.summary.end + HOUR, call.landing):
            if row["line"] is None:
                unreadable += 1
            elif row["reason"] is None:
                accepted += 1
                keys.add(row[STREAMS[stream].schema.names[0]])
            else:
                reasons[fault_by(row["reason"], call.summary.malformed_by_fault, path.name)] += 1
    assert accepted == call.summary.events + call.summary.duplicates
    assert reasons == call.summary.malformed_by_fault
    assert unreadable == call.summary.unreadable_files
    assert sorted(keys) == call.found.keys


def fault_by(reason: str, faults: dict[str, int], file: str) -> str:
    """The one fault that the reason tells of; two of them differ by the format alone."""
    fitting = [fault for fault in faults if re.search(REASONS[fault], reason)]
    if fitting == ["unreadable time", "unreadable invoice date"]:
        return fitting[".csv" in file]
    assert len(fitting) == 1, reason
    return fitting[0]


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
@pytest.mark.parametrize("more", [0, 1, 2])
def test_little_is_enough(tmp_path, stream, more):
    size = SIMULATORS[stream].least_size + more
    made = simulate(stream, tmp_path, size=size, start=START, hours=SIMULATORS[stream].least_hours)
    found = read(stream, tmp_path, contents(tmp_path))
    assert (made.size, made.files, made.rows, made.events) == (size, found.files, found.rows, len(found.events))
    assert made.malformed_by_fault == found.malformed


@EVERY
def test_a_reader_never_sees_a_temporary_file(calls, stream):
    assert not [path.name for call in calls(stream) for path in call.paths if path.name.startswith(".")]


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
