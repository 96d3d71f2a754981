"""Of every stream: the counts are true, the faults are faults for their own reason, and the data are fresh."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.errors import KeyfoldError
from spark_jobs.simulation import SIMULATORS, SimulationSummary, simulate
from spark_jobs.streams import SHIPPED, STREAMS
from tests.keyfold.ingestion.parsing.reading import file_rows

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ARRIVED = datetime(2100, 1, 1, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
EVERY = pytest.mark.parametrize("stream", SHIPPED)
BOUNDS = {
    "ride_points": (MINUTE, 40 * MINUTE),
    "weather": (30 * MINUTE, 3 * HOUR),
    "metrics": (MINUTE, HOUR),
    "telemetry": (MINUTE, 40 * MINUTE),
    "sales": (MINUTE, 3 * HOUR),
    "payments": (MINUTE, 15 * MINUTE),
}
"""How far an event comes behind a newer one if it is out of order, and if it is late; a ride point counts from its ride's end."""


@dataclass
class Found:
    """What ingest reads in some files, in the order of arrival."""

    files: int = 0
    unreadable: int = 0
    rows: int = 0
    copies: int = 0
    malformed: Counter[str] = field(default_factory=Counter)
    events: list[dict[str, Any]] = field(default_factory=list)

    def behind(self, stream: str, than: timedelta, *, of_ride: bool = False) -> int:
        """How many events arrive after one that is newer by more than this."""
        time = STREAMS[stream].event_time
        ends: dict[str, datetime] = {}
        for event in self.events if of_ride else ():
            ends[event["ride_id"]] = max(ends.get(event["ride_id"], event[time]), event[time])
        newest, count = self.events[0][time], 0
        for event in self.events:
            newest = max(newest, event[time])
            count += newest - (ends[event["ride_id"]] if of_ride else event[time]) > than
        return count


def read(name: str, landing: Path, paths: Iterable[Path]) -> Found:
    """Read the files of a stream in the order of their names."""
    stream, found, seen = STREAMS[name], Found(), set()
    for path in sorted(paths):
        rows = file_rows(stream, path, ARRIVED, landing)
        if any(row["line"] is None for row in rows):
            found.unreadable += 1
            continue
        found.files, found.rows = found.files + 1, found.rows + len(rows)
        for row in rows:
            event = {column: row[column] for column in stream.schema.names}
            key = tuple(event[column] for column in stream.event_id)
            if row["reason"]:
                found.malformed[fault_of(name, row["reason"])] += 1
            elif key and key in seen:
                found.copies += 1
            else:
                seen.add(key)
                found.events.append(event)
    return found


def fault_of(stream: str, reason: str) -> str:
    """The fault for which ingest rejects a line."""
    for fault, told in (
        ("broken line", r"not valid JSON|the row has \d+ fields, the header \d+"),
        ("empty key", f"^{STREAMS[stream].schema.names[0]} is (empty|missing)"),
        ("unreadable time", "is not an ISO 8601 time: half past nine"),
        ("time in the future", "past its arrival: 2199-12-31"),
        ("word for a number", "is not a finite number: plenty"),
    ):
        if re.search(told, reason):
            return fault
    column = reason.split(maxsplit=1)[0]
    assert column in SIMULATORS[stream].wrong, reason
    return f"wrong {column}"


@dataclass(frozen=True)
class Call:
    """One call: what it said, and what it wrote."""

    paths: tuple[Path, ...]
    summary: SimulationSummary
    found: Found


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """A call for each stream."""

    @cache
    def of(stream: str) -> Call:
        landing = tmp_path_factory.mktemp(stream)
        summary = simulate(stream, landing, seed=7, start=START)
        return Call(tuple(contents(landing)), summary, read(stream, landing, contents(landing)))

    return of


@EVERY
def test_the_summary_counts_what_ingest_accepts_and_what_it_rejects_for_each_reason(calls, stream):
    call = calls(stream)
    assert not [path.name for path in call.paths if path.name.startswith(".")]
    summary, found = call.summary, call.found
    assert (summary.files, summary.unreadable_files) == (found.files, found.unreadable)
    assert summary.rows == found.rows == summary.events + summary.duplicates + summary.malformed
    assert (summary.events, summary.duplicates) == (len(found.events), found.copies)
    assert summary.malformed_by_fault == found.malformed
    assert summary.malformed == found.malformed.total()
    assert min(summary.malformed_by_fault.values()) > 0


@EVERY
def test_some_events_come_out_of_order_few_of_them_late_and_all_in_the_span_that_the_summary_says(calls, stream):
    call = calls(stream)
    out_of_order, late = BOUNDS[stream]
    assert call.summary.out_of_order == call.found.behind(stream, out_of_order)
    assert call.summary.late == call.found.behind(stream, late, of_ride=stream == "ride_points")
    assert 0 < call.summary.late <= call.summary.out_of_order < 0.15 * call.summary.events
    times = [event[STREAMS[stream].event_time] for event in call.found.events]
    assert call.summary.start <= min(times) <= max(times) <= call.summary.end
    assert max(times) - min(times) > timedelta(hours=SIMULATORS[stream].hours[0]) - 2 * HOUR


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


@pytest.mark.parametrize("stream", ["ride_points", "payments"])
def test_without_a_start_the_data_are_fresh_and_a_second_call_goes_on_in_time(tmp_path, stream):
    first = simulate(stream, tmp_path, seed=1)
    second = simulate(stream, tmp_path, seed=2)
    now = datetime.now(UTC)
    assert timedelta(0) <= now - first.end < timedelta(hours=8)
    assert second.start == first.end
    assert second.end <= now
    found = read(stream, tmp_path, contents(tmp_path))
    assert found.rows == first.rows + second.rows
    assert found.files == first.files + second.files
    assert len(found.events) == first.events + second.events, "events of two calls are never the same"


def test_arguments_out_of_range_are_named(tmp_path):
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"size": 0}, "rides is 0"),
        ({"hours": 0.5}, r"hours is 0\.5"),
        ({"files": 3}, "files is 3"),
        ({"start": datetime(2026, 1, 1)}, "no offset"),  # noqa: DTZ001
    ]
    for arguments, told in wrong:
        with pytest.raises(KeyfoldError, match=told):
            simulate("ride_points", tmp_path, **arguments)
    assert not list(tmp_path.iterdir())


def test_every_stream_that_is_shipped_can_be_simulated():
    assert set(SIMULATORS) == set(SHIPPED)


def contents(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def type_simulate(*arguments: object):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def test_it_simulates_rides_or_the_stream_that_is_named(tmp_path):
    told = type_simulate("--to", tmp_path, "--size", 10, "--seed", 3, "--json")
    assert told.exit_code == 0
    summary = json.loads(told.stdout)
    assert (summary["stream"], summary["size"]) == ("ride_points", 10)
    assert len(list(tmp_path.iterdir())) == summary["files"] + summary["unreadable_files"]
    told = type_simulate("--to", tmp_path, "--stream", "weather", "--size", 2)
    assert "rows of 2 stations in" in told.stdout


@pytest.mark.parametrize("arguments", [("--stream", "tides"), ("--size", 0)])
def test_what_does_not_fit_is_bad_usage_and_writes_nothing(tmp_path, arguments):
    assert type_simulate("--to", tmp_path / "landing", *arguments).exit_code == 2
    assert not list(tmp_path.iterdir())
