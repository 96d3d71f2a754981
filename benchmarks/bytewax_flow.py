"""Ride summaries as a Bytewax 0.21 dataflow, from JSON lines to a file of summaries; run by `beside_bytewax`.

It follows Bytewax's guide: lines are parsed in batches, points are keyed by ride, and the state of each ride is folded point by
point. It keeps no table and no recovery data.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

import bytewax.operators as op  # pyright: ignore[reportMissingImports]
from bytewax.connectors.files import FileSink  # pyright: ignore[reportMissingImports]
from bytewax.dataflow import Dataflow  # pyright: ignore[reportMissingImports]
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition  # pyright: ignore[reportMissingImports]

try:
    from orjson import loads  # pyright: ignore[reportMissingImports]
except ImportError:
    from json import loads

FOLDER = Path(os.environ["KEYFOLD_BENCH_LANDING"])
OUT = Path(os.environ["KEYFOLD_BENCH_OUT"])
_LINES = 1_000


class _File(StatefulSourcePartition):
    def __init__(self, path: Path) -> None:
        self._lines = path.open("rb")

    def next_batch(self) -> list[bytes]:
        lines = self._lines.readlines(_LINES * 250)
        if not lines:
            raise StopIteration
        return lines

    def snapshot(self) -> None:
        return None


class _Files(FixedPartitionedSource):
    def list_parts(self) -> list[str]:
        return sorted(path.name for path in FOLDER.iterdir())

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> _File:
        return _File(FOLDER / for_part)


def _parse(lines: list[bytes]) -> list[tuple[str, dict[str, Any]]]:
    points = (loads(line) for line in lines)
    return [(point["ride_id"], point) for point in points]


def _summarise(ride: list[Any] | None, point: dict[str, Any]) -> tuple[list[Any] | None, list[str]]:
    latitude, longitude = math.radians(point["latitude"]), math.radians(point["longitude"])
    if ride is None:
        ride = [point["timestamp"], point["ride_status"], latitude, longitude, 0.0, 0]
    half = math.sin((latitude - ride[2]) / 2) ** 2
    half += math.cos(latitude) * math.cos(ride[2]) * math.sin((longitude - ride[3]) / 2) ** 2
    ride[4] += 2 * 6_371_008.8 * math.asin(math.sqrt(half))
    ride[2], ride[3], ride[5] = latitude, longitude, ride[5] + 1
    if point["ride_status"] != "dropoff":
        return ride, []
    summary = {
        "start_time": ride[0],
        "end_time": point["timestamp"],
        "start_status": ride[1],
        "end_status": point["ride_status"],
        "n_points": ride[5],
        "distance_in_metres": ride[4],
        "fare": point["meter_reading"],
    }
    return None, [json.dumps(summary)]


flow = Dataflow("ride_summaries")
_points = op.flat_map_batch("parse", op.input("files", flow, _Files()), _parse)
_summaries = op.stateful_flat_map("summarise", _points, _summarise)
op.output("out", _summaries, FileSink(OUT.with_suffix(f".{os.getpid()}")))
