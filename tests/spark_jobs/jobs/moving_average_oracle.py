"""Moving averages in plain Python, one reading at a time: what the job must agree with."""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

Reading = dict


@dataclass
class Answer:
    averages: list[dict] = field(default_factory=list)
    sessions: list[dict] = field(default_factory=list)
    open_readings: int = 0


def move(readings: list[Reading], watermark: datetime, length: int, at_least: int, timeout: timedelta) -> Answer:
    """What the job's definition says of readings none of which is late, once the watermark has come to a moment."""
    answer = Answer()
    answer.open_readings = sum(reading["time"] > watermark for reading in readings)
    for station in sorted({reading["station_id"] for reading in readings}):
        passed = [one for one in readings if one["station_id"] == station and one["time"] <= watermark]
        session: list[Reading] = []
        for reading in sorted(passed, key=_order):
            if session and reading["time"] - session[-1]["time"] > timeout:
                _close(answer, session, at_least)
                session = []
            session.append(reading)
            if len(session) >= at_least:
                window = session[-length:]
                answer.averages.append(_row(window, "WINDOW_FULL" if len(window) == length else "WINDOW_FILLING"))
        if session and session[-1]["time"] + timeout <= watermark:
            _close(answer, session, at_least)
        else:
            answer.open_readings += len(session)
    return answer


def _close(answer: Answer, session: list[Reading], at_least: int) -> None:
    if len(session) < at_least:
        answer.averages.append(_row(session, "TIMEOUT"))
    row = _row(session, "TIMEOUT")
    answer.sessions.append({name: value for name, value in row.items() if not name.endswith("_avg")})


def _row(window: list[Reading], reason: str) -> dict:
    return {
        "station_id": window[0]["station_id"],
        "start_time": window[0]["time"],
        "end_time": window[-1]["time"],
        **{f"{column}_avg": _mean([reading[column] for reading in window]) for column in ("pressure", "temp")},
        "n_readings": len(window),
        "reason": reason,
    }


def _mean(values: list[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return math.fsum(there) / len(there) if there else None


def _order(reading: Reading) -> tuple:
    return reading["time"], *((value is not None, value or 0) for value in (reading["pressure"], reading["temp"]))


@dataclass
class _Station:
    heard_at: datetime
    session: list[Reading] = field(default_factory=list)
    waiting: list[Reading] = field(default_factory=list)


def move_by_processing_time(
    runs: list[tuple[datetime, list[Reading]]], delay: timedelta, length: int, at_least: int, timeout: timedelta
) -> tuple[Answer, list[Reading]]:
    """The answer where a silence is of processing time, and what came late; of runs, each at its moment."""
    answer, late = Answer(), []
    stations: dict[str, _Station] = {}
    watermark = datetime(1, 1, 1, tzinfo=UTC)
    for now, readings in runs:
        for name in [name for name, one in stations.items() if one.heard_at + timeout <= now]:
            silent = stations.pop(name)
            _take(answer, silent, silent.waiting, length, at_least)
            _close(answer, silent.session, at_least)
        for reading in readings:
            if reading["time"] <= watermark:
                late.append(reading)
                continue
            station = stations.setdefault(reading["station_id"], _Station(now))
            station.heard_at = now
            station.waiting.append(reading)
        watermark = max([watermark, *(reading["time"] - delay for reading in readings)])
        for station in stations.values():
            _take(answer, station, [one for one in station.waiting if one["time"] <= watermark], length, at_least)
            station.waiting = [one for one in station.waiting if one["time"] > watermark]
    answer.open_readings = sum(len(one.session) + len(one.waiting) for one in stations.values())
    return answer, late


def _take(answer: Answer, station: _Station, readings: list[Reading], length: int, at_least: int) -> None:
    for reading in sorted(readings, key=_order):
        station.session.append(reading)
        if len(station.session) >= at_least:
            window = station.session[-length:]
            answer.averages.append(_row(window, "WINDOW_FULL" if len(window) == length else "WINDOW_FILLING"))
