"""Reads simulated files in plain Python, a line at a time, and judges each line by rules of its own."""

import csv
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FUTURE = datetime(2100, 1, 1, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


class Fault(Exception):
    """What is wrong with a line."""


@dataclass
class Found:
    """What is in some files, in the order of arrival; an event is a dict with `key`, `time` and the raw fields."""

    files: int = 0
    unreadable: int = 0
    rows: int = 0
    copies: int = 0
    copies_elsewhere: int = 0
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


def read(stream: str, landing: Path, paths: Iterable[Path]) -> Found:
    """Read the files in the order of their names."""
    found, seen = Found(), {}
    for path in sorted(paths):
        try:
            raw = path.read_bytes()
            lines = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode().splitlines()
        except EOFError:
            found.unreadable += 1
            continue
        found.files += 1
        header = next(csv.reader([lines.pop(0)])) if ".csv" in path.suffixes else None
        default_key = str(path.relative_to(landing)).removesuffix(".gz").removesuffix(".csv")
        for line in lines:
            found.rows += 1
            try:
                event = _JUDGES[stream](_fields(line, header), default_key)
            except Fault as fault:
                found.malformed[str(fault)] += 1
                continue
            identity = event["key"], event["time"]
            if stream != "sales" and identity in seen:
                assert seen[identity][0] == line, "a copy differs from the event it copies"
                found.copies += 1
                found.copies_elsewhere += seen[identity][1] != path
            else:
                seen[identity] = line, path
                found.events.append(event | {"line": line})
    return found


def _fields(line: str, header: list[str] | None) -> dict[str, Any]:
    if header is None:
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            raise Fault("broken JSON") from None
    try:
        values = next(csv.reader([line], strict=True))
    except csv.Error:
        raise Fault("quote that never closes") from None
    if len(values) != len(header):
        raise Fault("too few fields")
    return dict(zip(header, values, strict=True))


def _time(text: str, fault: str = "unreadable time") -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise Fault(fault) from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    if time > FUTURE:
        raise Fault("time in the future")
    return time


def _rides(row: dict[str, Any], _: str) -> dict[str, Any]:
    if "ride_id" not in row:
        raise Fault("no ride_id")
    if abs(row["latitude"]) > 90:
        raise Fault("latitude out of range")
    if row["ride_status"] not in {"pickup", "enroute", "dropoff"}:
        raise Fault("unknown status")
    return row | {"key": row["ride_id"], "time": _time(row["timestamp"])}


def _weather(row: dict[str, Any], _: str) -> dict[str, Any]:
    if not row["origin"]:
        raise Fault("no station")
    try:
        temperature = float(row["temp"])
    except ValueError:
        raise Fault("temperature is a word") from None
    if not 0 <= float(row["humid"]) <= 110:
        raise Fault("humidity out of range")
    if row["pressure"] != "NA" and not 800 <= float(row["pressure"]) <= 1100:
        raise Fault("pressure out of range")
    return row | {"key": row["origin"], "time": _time(row["time_hour"]), "temp": temperature}


def _metrics(row: dict[str, Any], default_key: str) -> dict[str, Any]:
    key = row.get("key", default_key)
    if not key:
        raise Fault("empty key")
    if row["value"] in ("", None):
        raise Fault("no value")
    try:
        value = float(row["value"])
    except ValueError:
        raise Fault("value is a word") from None
    return row | {"key": key, "time": _time(row["timestamp"]), "value": value}


def _telemetry(row: dict[str, Any], _: str) -> dict[str, Any]:
    if not row["vehicle_id"].strip():
        raise Fault("empty vehicle")
    if row["latitude"] is None or row["longitude"] is None:
        raise Fault("no position")
    if abs(row["latitude"]) > 90:
        raise Fault("latitude out of range")
    if row["speed"] < 0:
        raise Fault("speed out of range")
    if (row["fuel_level"] or 0) < 0:
        raise Fault("fuel level is negative")
    if abs(row["acceleration"] or 0) > 100:
        raise Fault("acceleration out of range")
    if not 0 <= row["bearing"] <= 360:
        raise Fault("bearing out of range")
    if (row["engine_temperature"] or 0) > 300:
        raise Fault("engine temperature out of range")
    return row | {"key": row["vehicle_id"], "time": _time(row["time"])}


def _sales(row: dict[str, Any], _: str) -> dict[str, Any]:
    if "InvoiceNo" in row:
        if not row["StockCode"]:
            raise Fault("no stock code")
        try:
            quantity = int(row["Quantity"])
        except ValueError:
            raise Fault("quantity is a word") from None
        time = _time(row["InvoiceDate"], "unreadable invoice date")
        models, item, price = [row["Description"]], row["StockCode"], float(row["UnitPrice"])
    else:
        if not row["item"]:
            raise Fault("empty item")
        if not isinstance(row["quantity"], int):
            raise Fault("half a piece")
        if not all(isinstance(model, str) for model in row["model"]):
            raise Fault("model is a number")
        models, item, price, quantity = row["model"], row["item"], row.get("price"), row["quantity"]
        time = _time(row["time"]) if "time" in row else None
        if time is None and set(row) != {"item", "quantity", "model"}:
            raise Fault("a message without a time says more than its till knows")
    return row | {"key": item, "time": time, "quantity": quantity, "models": models, "price": price}


def _payments(row: dict[str, Any], _: str) -> dict[str, Any]:
    if not row["card"].strip():
        raise Fault("empty card")
    if row["city"] is None:
        raise Fault("no city")
    if not isinstance(row["amount"], float):
        raise Fault("amount is a word")
    if row["amount"] <= 0:
        raise Fault("amount is nought")
    return row | {"key": row["card"], "time": _time(row["time"])}


_JUDGES: dict[str, Callable[[dict[str, Any], str], dict[str, Any]]] = {
    "ride_points": _rides,
    "weather": _weather,
    "metrics": _metrics,
    "telemetry": _telemetry,
    "sales": _sales,
    "payments": _payments,
}
