"""Measure one cell of the grid: a job with a number of open keys works on a few batches.

Each cell runs in its own process, so that its peak memory is its own. `measure` is called in that process.
"""

import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.scale.balances import BOOKING, START, STREAM, balances, bookings, first_state
from benchmarks.usage import PeakMemory, bytes_written, processor_seconds_of
from keyfold import Lakehouse, build_session
from keyfold.journal.records import Progress
from keyfold.keyed.generation.batch_records import Counts
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.runner import RunOptions, run_job
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.runners import Runners
from keyfold.session import SparkSettings
from keyfold.state.making.bootstrap import Bootstrap, bootstrap

_KEYS_A_FILE = 1_000_000
_COLD = 2
"""Batches that do not count, since Java still compiles and Spark still loads state."""


@dataclass(frozen=True)
class Cell:
    """The settings of a cell.

    Attributes:
        keys: number of open keys.
        key_groups: key groups of the job.
        events: events per batch.
        partitions: state partitions.
        batches: number of warm batches.
    """

    keys: int = 1_000_000
    key_groups: int = 64
    events: int = 100_000
    partitions: int = 2
    batches: int = 4


@dataclass
class _Samples:
    """Resources used and bytes written up to the end of each batch."""

    generation: Path
    memory: PeakMemory
    wall: list[float] = field(default_factory=list)
    used: list[dict[str, float]] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    files: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _own: float = 0.0

    def take(self) -> None:
        began = time.thread_time()
        self.wall.append(time.monotonic())
        used = processor_seconds_of(os.getpid())
        # Subtract the cost of measuring, here and in the sampling of memory.
        used["driver"] -= self.memory.seconds + self._own
        self.used.append(used)
        self.written.append(bytes_written(os.getpid()))
        for part in ("state", "journal", "tables"):
            count = size = 0
            for folder, _, names in os.walk(self.generation / part):
                for name in names:
                    path = f"{folder}/{name}"
                    if path not in self._known:
                        self._known.add(path)
                        count, size = count + 1, size + os.stat(path).st_size
            self.files.setdefault(part, []).append((count, size))
        self._own += time.thread_time() - began


def measure(cell: Cell, folder: Path) -> dict[str, Any]:
    """Measure a cell, and return its settings and results as a dictionary for JSON.

    Args:
        cell: the settings.
        folder: an empty folder for all files.
    """
    memory = PeakMemory(os.getpid())
    # KEYFOLD_SPARK_CONF is used too, so that settings of Spark can be tried.
    conf = SparkSettings.from_environment().conf | {"spark.sql.shuffle.partitions": str(cell.partitions)}
    session, result = build_session(SparkSettings(conf=conf)), asdict(cell)
    spark = Runners("spark", session)
    lakehouse, job = Lakehouse(folder / "home"), balances(cell.key_groups)
    create_table(lakehouse.events(STREAM), BOOKING)
    result |= seed(spark, lakehouse, cell, folder)
    largest = book(lakehouse, cell)
    generation = live_generation(lakehouse, job.name)
    assert generation is not None  # noqa: S101 - the bootstrap has made it
    samples = _Samples(Path(str(generation.folder)), memory)
    samples.take()
    # Sample memory only now, since building the state needs more than working with it.
    memory.start()

    def on_batch(progress: Progress, counts: Counts) -> None:
        samples.take()

    ran = run_job(lakehouse, job, options=RunOptions(largest, on_batch), runners=spark)
    if ran.counts.events != cell.events * (cell.batches + _COLD):
        raise SystemExit(f"{cell}: {ran.counts.events} events were counted")
    result |= {"peak": memory.stop(), **_of_a_batch(samples, cell)}
    session.stop()
    return result


def seed(spark: Runners, lakehouse: Lakehouse, cell: Cell, folder: Path) -> dict[str, Any]:
    """Build the full state, and return the time and size of that."""
    source = folder / "seed"
    source.mkdir()
    for first in range(0, cell.keys, _KEYS_A_FILE):
        rows = first_state(first, min(first + _KEYS_A_FILE, cell.keys))
        rows.write_parquet(source / f"{first:012d}.parquet")
    before, began = sum(processor_seconds_of(os.getpid()).values()), time.monotonic()
    wanted = Bootstrap(str(source), watermark=START, read_from="latest")
    made = bootstrap(spark, lakehouse, balances(cell.key_groups), wanted)
    assert made.checked.keys == cell.keys  # noqa: S101 - accounts are one to one with their numbers
    return {
        "seed_wall": time.monotonic() - began,
        "seed_processor": sum(processor_seconds_of(os.getpid()).values()) - before,
    }


def book(lakehouse: Lakehouse, cell: Cell) -> int:
    """Write the events of all batches, and return the maximum bytes of a batch that keep these batches separate."""
    table, landed, total = lakehouse.events(STREAM), [], 0
    for batch in range(cell.batches + _COLD):
        rows = bookings(batch, cell.events, cell.keys)
        landed.append(write_data_file(rows, table, BOOKING))
    total = sum(file.bytes for file in landed)
    append_files(table, landed, "benchmark", 0)
    return -(-total // (cell.batches + _COLD))


def _of_a_batch(samples: _Samples, cell: Cell) -> dict[str, Any]:
    """Medians over the warm batches."""

    def median(values: list[float]) -> float:
        return statistics.median(b - a for a, b in pairwise(values[_COLD:]))

    used = [sum(one.values()) for one in samples.used]
    roles = sorted(samples.used[-1])
    written = samples.files
    return {
        "wall": median(samples.wall),
        "processor": median(used),
        "processor_of": {role: round(median([one.get(role, 0.0) for one in samples.used]), 3) for role in roles},
        "disk_bytes": median(list(map(float, samples.written))),
        # The mean of all batches except the seed, since RocksDB merges files, and writes them again, every few batches.
        **{f"{part}_bytes": statistics.mean(size for _, size in sizes[1:]) for part, sizes in written.items()},
        **{f"{part}_files": statistics.mean(count for count, _ in sizes[1:]) for part, sizes in written.items()},
        "walls": [round(b - a, 3) for a, b in pairwise(samples.wall)],
        "processors": [round(b - a, 3) for a, b in pairwise(used)],
        "state_sizes": [size for _, size in written["state"]],
        "load": os.getloadavg()[0],
    }


def run_here(settings: dict[str, Any]) -> dict[str, Any]:
    """Measure in this process, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="keyfold-scale-") as folder:
        return measure(Cell(**settings), Path(folder))
