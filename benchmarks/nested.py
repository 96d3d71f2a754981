"""Compare parsing nested JSON lines with parsing flat ones of the same values.

`python -m benchmarks.nested [LINES]` prints the best of three runs for each kind, in events and bytes per second, and its time
relative to that of flat lines.
"""

import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from keyfold import Source, Stream
from keyfold.ingestion.parsing import parse_file
from keyfold.stream import TIMESTAMP

ARRIVED = datetime(2026, 1, 1, tzinfo=UTC)
LIST = 10
SCHEMA = pa.schema(
    [("id", pa.int64()), ("device", pa.int64()), ("room", pa.string()), ("value", pa.float64()), ("time", TIMESTAMP)]
)
NESTED = {"device": Source("device.id"), "room": Source("device.place.room"), "value": Source("reading.value")}
KEPT = {**NESTED, "reading": Source("reading", json=True)}
EXPLODED = {**NESTED, "value": Source("readings[].value")}


def _stream(sources: dict[str, Source]) -> Stream:
    more = [pa.field("reading", pa.string())] if "reading" in sources else []
    return Stream("measured", pa.schema([*SCHEMA, *more]), "time", sources=sources)


def _lines(kind: str, count: int) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    for at in range(count):
        base = {"id": at, "time": "2025-12-01T00:00:00Z"}
        device = {"id": at % 100, "place": {"room": f"room {at % 7}"}}
        if kind == "flat":
            lines.append({**base, "device": at % 100, "room": f"room {at % 7}", "value": at / 8})
        elif kind == "elements":
            if at % LIST == 0:
                lines.append({**base, "device": device, "readings": [{"value": (at + one) / 8} for one in range(LIST)]})
        else:
            lines.append({**base, "device": device, "reading": {"value": at / 8, "unit": "C"}})
    return lines


def _seconds(stream: Stream, path: Path, count: int) -> float:
    took = []
    for _ in range(3):
        began = time.perf_counter()
        accepted = sum(rows.accepted.height for rows in parse_file(stream, path, ARRIVED))
        took.append(time.perf_counter() - began)
        if accepted != count:
            raise SystemExit(f"{path.name}: {accepted:,} events of {count:,}")
    return min(took)


def main(count: int) -> None:
    """Measure each kind, and print a line about it."""
    kinds = {"flat": {}, "paths": NESTED, "paths and JSON text": KEPT, "elements": EXPLODED}
    flat = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for kind, sources in kinds.items():
            path = Path(folder) / f"{kind}.ndjson"
            path.write_text("".join(json.dumps(line) + "\n" for line in _lines(kind, count)))
            seconds, size = _seconds(_stream(sources), path, count), path.stat().st_size
            flat = flat or seconds
            print(
                f"{kind:20} {count / seconds:12,.0f} events/s  {size / seconds / 1e6:6.0f} MB/s  "
                f"time beside flat {seconds / flat:.2f}"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
