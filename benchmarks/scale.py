"""`python -m benchmarks.scale`: the cost of a batch by number of keys and events, and runner.

Each cell of the grid runs in its own process, so that its peak memory is its own: a job with that many open keys works on a few
batches in one run.
"""

import itertools
import multiprocessing
import os
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Literal

from benchmarks.balances import BOOKING, START, STREAM, balances, bookings, first_state
from benchmarks.usage import PeakMemory, processor_seconds
from keyfold import Lakehouse
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job_run import RunOptions, run_job
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.runners import Runners
from keyfold.session import SparkSettings, build_session
from keyfold.state.making.seeding import SeedSource, seed_job

CELLS = [
    (10_000_000, 512, 1_000),
    (10_000_000, 512, 100_000),
    (10_000_000, 32_768, 1_000),
    (1_000_000, 64, 1_000_000),
]
"""Open keys, key groups, and events a batch."""

_BATCHES, _COLD = 4, 2
"""Warm batches; and those before them, which do not count, since Java still compiles."""
_KEYS_A_FILE = 1_000_000


def main() -> None:
    spawn = multiprocessing.get_context("spawn")
    for cell, runner in itertools.product(CELLS, ("spark", "local")):
        with tempfile.TemporaryDirectory(prefix="keyfold-scale-") as folder, ProcessPoolExecutor(1, spawn) as process:
            process.submit(measure, Path(folder), *cell, runner).result()


def measure(folder: Path, keys: int, key_groups: int, events: int, runner: Literal["spark", "local"]) -> None:
    """Measure a cell in an empty folder, and print its medians over the warm batches."""
    conf = {"spark.sql.shuffle.partitions": "2"}
    session = build_session(SparkSettings(conf=conf)) if runner == "spark" else None
    runners, lakehouse, job = Runners(runner, session), Lakehouse(folder / "home"), balances(key_groups)
    create_table(lakehouse.events(STREAM), BOOKING)
    began = time.monotonic()
    _seed(runners, lakehouse, folder / "seed", keys, key_groups)
    seeded = time.monotonic() - began
    largest = _book(lakehouse, keys, events)
    generation = live_generation(lakehouse, job.name)
    assert generation is not None  # noqa: S101 - seeding has made it
    state = Path(str(generation.folder / "state"))
    # Memory is sampled only now, since building the state needs more than working with it.
    memory = PeakMemory(os.getpid())
    walls, used, sizes = [time.monotonic()], [processor_seconds(os.getpid())], [_names(state)]

    def on_batch(*_: object) -> None:
        walls.append(time.monotonic())
        used.append(processor_seconds(os.getpid()) - memory.seconds)
        sizes.append(_names(state))

    memory.start()
    ran = run_job(lakehouse, job, options=RunOptions(largest, on_batch), runners=runners)
    peak = memory.stop()
    if session is not None:
        session.stop()
    if ran.counts.events != events * (_BATCHES + _COLD):
        raise SystemExit(f"{ran.counts.events} events were counted")
    # The mean, since parts are joined every few batches.
    written = statistics.mean(
        sum(size for name, size in b.items() if name not in a) for a, b in itertools.pairwise(sizes)
    )
    print(
        f"{runner:>5} {keys:>11,} keys {key_groups:>6,} groups {events:>9,} events: {_median(walls):.2f} s, {_median(used):.2f} processor s, state "
        f"{written / 1e6:,.2f} MB a batch, peak {peak / 2**30:.1f} GiB; seeding {seeded:.1f} s"
    )


def _median(values: list[float]) -> float:
    return statistics.median(after - before for before, after in itertools.pairwise(values[_COLD:]))


def _names(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _seed(runners: Runners, lakehouse: Lakehouse, source: Path, keys: int, key_groups: int) -> None:
    source.mkdir()
    for first in range(0, keys, _KEYS_A_FILE):
        first_state(first, min(first + _KEYS_A_FILE, keys)).write_parquet(source / f"{first:012d}.parquet")
    seeded = seed_job(
        lakehouse,
        balances(key_groups),
        SeedSource(str(source), watermark=START, read_from="latest"),
        yes=True,
        runners=runners,
    )
    assert seeded.checked.keys == keys  # noqa: S101 - accounts are one to one with their numbers


def _book(lakehouse: Lakehouse, keys: int, events: int) -> int:
    """Write the events of all batches, and return the maximum bytes of a batch that keep these batches separate."""
    table = lakehouse.events(STREAM)
    landed = [write_data_file(bookings(batch, events, keys), table, BOOKING) for batch in range(_BATCHES + _COLD)]
    append_files(table, landed, "benchmark", 0)
    return -(-sum(file.bytes for file in landed) // len(landed))


if __name__ == "__main__":
    main()
