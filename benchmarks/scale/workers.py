"""`POLARS_MAX_THREADS=1 python -m benchmarks.scale.workers`: what Python workers alone do for a batch, part by part.

Cutting events into blobs, the operator with its decoding, step and encoding, and the sink, in one process and without
Spark, over keys, key groups and events: the whole of the grid in minutes, and no other work on the machine counts, since
it is processor seconds that are told. What Java adds is the difference to the cells of `benchmarks.scale`.
"""

import argparse
import gc
import tempfile
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from benchmarks.scale.balances import EVERY, START, balances, bookings, first_state
from keyfold.keyed import read
from keyfold.keyed.codec import decode, encode
from keyfold.keyed.contract import KeyedJob
from keyfold.keyed.operator import KeyGroupOperator
from keyfold.keyed.read import CLOCK, BatchClock
from keyfold.keyed.write import write_tables
from keyfold.times import micros

_REPEAT = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.workers", description=__doc__)
    parser.add_argument("--keys", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--key-groups", type=int, nargs="*", default=[8, 64, 512, 4096])
    parser.add_argument("--events", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    arguments = parser.parse_args()
    print("| keys | key groups | events | cut | decode | step | encode | operator in all | sink | bytes of state |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for keys, groups, events in product(arguments.keys, arguments.key_groups, arguments.events):
        spent, size = work(keys, groups, events)
        told = " | ".join(f"{spent[part]:.3f}" for part in ("cut", "decode", "step", "encode", "operator", "sink"))
        print(f"| {keys:,} | {groups:,} | {events:,} | {told} | {size:,} |", flush=True)


def work(keys: int, key_groups: int, events: int) -> tuple[dict[str, float], int]:
    """Processor seconds of a batch by part, the best of a few, and the bytes of all blobs of state."""
    job = balances(key_groups)
    kept = _Values(job)
    for blob in _blobs(job, first_state(0, keys, 1)).to_pylist():
        kept.begin(blob["key_group"], blob["payload"])
    best: dict[str, float] = {}
    # As Spark's workers do it (`keyed/worker.py`): what is loaded is no business of the collector's.
    gc.collect()
    gc.freeze()
    for batch in range(_REPEAT):
        rows = bookings(batch, events, keys, 1, key_groups, key_groups)
        spent = _batch(job, kept, rows, batch)
        best = {part: min(seconds, best.get(part, seconds)) for part, seconds in spent.items()}
    return best, kept.size


def _batch(job: KeyedJob, kept: "_Values", rows: Any, batch: int) -> dict[str, float]:
    spent: dict[str, float] = {}
    since = time.process_time()
    blobs = _blobs(job, rows).to_pylist()
    spent["cut"] = time.process_time() - since
    until = micros(START + (batch + 1) * EVERY)
    clock = SimpleNamespace(sequence=CLOCK, payload=BatchClock(batch, until, until, until).pack())
    operator: Any = KeyGroupOperator(job, Path("answers"), kept.timers, kept.state)  # type: ignore[arg-type]
    since = time.process_time()
    emitted = []
    for blob in blobs:
        kept.group = blob["key_group"]
        emitted += [row.asDict() for row in operator.call(kept.group, iter([clock, SimpleNamespace(**blob)]))]
    spent["operator"] = time.process_time() - since
    spent |= _parts(job, kept, blobs)
    schema = pa.schema([("table", pa.string()), ("payload", pa.binary())])
    with tempfile.TemporaryDirectory(prefix="keyfold-workers-") as folder:
        tables: dict[str, Any] = {table.name: Path(folder) / table.name for table in job.tables}
        for path in tables.values():
            path.mkdir()
        since = time.process_time()
        list(write_tables(job, tables)([pa.RecordBatch.from_pylist(emitted, schema=schema)]))
        spent["sink"] = time.process_time() - since
    return spent


def _parts(job: KeyedJob, kept: "_Values", blobs: list[dict[str, Any]]) -> dict[str, float]:
    """The operator's parts once more, one by one."""
    spent = {"decode": 0.0, "step": 0.0, "encode": 0.0}
    for blob in blobs:
        payload = kept.blobs[blob["key_group"]]
        since = time.process_time()
        state, came = decode(payload), decode(blob["payload"])
        spent["decode"] += time.process_time() - since
        since = time.process_time()
        made = job.step(state, came, None)  # type: ignore[arg-type]
        spent["step"] += time.process_time() - since
        since = time.process_time()
        encode(made.state)
        encode(made.output)
        spent["encode"] += time.process_time() - since
    return spent


def _blobs(job: KeyedJob, rows: Any) -> pa.RecordBatch:
    return next(read._by_group(job, rows, 0))


class _Values:
    """State of key groups in a dictionary, behind the two values that the operator has of Spark."""

    def __init__(self, job: KeyedJob) -> None:
        self.group = -1
        self.blobs: dict[int, bytes] = {}
        self._timers: dict[int, tuple[int, ...]] = {}
        self._version = job.schema_version
        self.state: Any = _Value(self, self.blobs, lambda stored: (stored,), lambda value: value[0])
        self.timers: Any = _Value(self, self._timers, lambda stored: stored, lambda value: value)

    def begin(self, group: int, payload: bytes) -> None:
        never = 2**63 - 1
        self.blobs[group] = payload
        self._timers[group] = (self._version, never, never, 0)

    @property
    def size(self) -> int:
        return sum(map(len, self.blobs.values()))


class _Value:
    def __init__(self, values: _Values, stored: dict[int, Any], give: Any, take: Any) -> None:
        self._values, self._stored, self._give, self._take = values, stored, give, take

    def get(self) -> Any:
        found = self._stored.get(self._values.group)
        return None if found is None else self._give(found)

    def update(self, value: Any) -> None:
        self._stored[self._values.group] = self._take(value)

    def clear(self) -> None:
        self._stored.pop(self._values.group, None)


if __name__ == "__main__":
    main()
