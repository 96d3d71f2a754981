"""Simulated files as ingest reads them, a file at a time; what ingest makes of a line is tested with ingest."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from spark_jobs.streams import STREAMS
from tests.keyfold.ingestion.parsing.reading import file_rows

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
ARRIVED = datetime(2100, 1, 1, tzinfo=UTC)
REASONS = {
    "broken JSON": "not valid JSON",
    "too few fields": r"the row has \d+ fields, the header \d+",
    "quote that never closes": "not valid CSV",
    "time in the future": "past its arrival: 2(199-12-31|200-01-01)",
    "unreadable time": "is not an ISO 8601 time: half past nine",
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
"""For which reason ingest rejects a line with a fault."""


@dataclass
class Found:
    """What is in some files, in the order of arrival; an event has its `key`, its `time` (None, if its line tells none) and its columns."""

    files: int = 0
    unreadable: int = 0
    rows: int = 0
    copies: int = 0
    malformed: Counter[str] = field(default_factory=Counter)
    events: list[dict[str, Any]] = field(default_factory=list)

    def of(self, key: str) -> list[dict[str, Any]]:
        """The events of one key, in the order of time; all of them have one."""
        return sorted((event for event in self.events if event["key"] == key), key=lambda event: event["time"])

    @property
    def keys(self) -> list[str]:
        return sorted({event["key"] for event in self.events})

    def behind(self, than: timedelta, *, by_key: bool) -> int:
        """How many events arrive after one that is newer by more than this."""
        newest: dict[str, datetime] = {}
        count = 0
        for event in self.events:
            if event["time"] is None:
                continue
            key = event["key"] if by_key else ""
            newest[key] = max(newest.get(key, event["time"]), event["time"])
            count += newest[key] - event["time"] > than
        return count


def read(name: str, landing: Path, paths: Iterable[Path]) -> Found:
    """Read the files of a stream in the order of their names."""
    stream, found, seen = STREAMS[name], Found(), {}
    for path in sorted(paths):
        rows = file_rows(stream, path, ARRIVED, landing)
        if any(row["line"] is None for row in rows):
            found.unreadable += 1
            continue
        found.files += 1
        found.rows += len(rows)
        for row in rows:
            if row["reason"]:
                found.malformed[_fault(name, row["reason"], path.name)] += 1
                continue
            event = {column: row[column] for column in stream.schema.names}
            key, time = row[stream.schema.names[0]], row[stream.event_time]
            if name != "sales" and (key, time) in seen:
                assert seen[key, time] == event, "a copy differs from the event it copies"
                found.copies += 1
            else:
                seen[key, time] = event
                found.events.append(event | {"key": key, "time": None if time == ARRIVED else time})
    return found


def _fault(stream: str, reason: str, file: str) -> str:
    (fault,) = [fault for fault, told in REASONS.items() if re.search(told, reason)]
    return "unreadable invoice date" if (fault, stream) == ("unreadable time", "sales") and ".csv" in file else fault
