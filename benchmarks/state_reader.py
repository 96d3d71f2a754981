"""Measure how fast a job's state is read to files: `python -m benchmarks.state_reader [--keys 1000000] [--repeat 3]`.

The state is built by a bootstrap of totals, one row per key (`benchmarks.bootstrap`). Then it is read to local files in each
form, in one warm session; the first read does not count. For whole reads it prints wall-clock seconds, processor seconds of all
processes (which other load on the machine does not change), MB/s of state, and peak memory. The size of a state is that of its
rows as columns in memory; their compressed size in the store is printed too.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bootstrap import totals
from benchmarks.memory import PeakMemory, processor_seconds
from keyfold import Lakehouse, build_job, build_session, read_state
from keyfold.lakehouse import create_table
from keyfold.session import SparkSettings
from keyfold.state.differences.diff import diff_states
from keyfold.state.making.bootstrap import Bootstrap, bootstrap
from keyfold.state.reading.export import write_state
from keyfold.state.reading.reader import StateRows
from keyfold.state.reading.state_statistics import state_statistics
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import SALES

MB = 1_000_000


def main() -> None:
    """Build the state, read it in each form, and print a line for each."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.state_reader", description=__doc__)
    arguments.add_argument("--keys", type=int, default=1_000_000)
    arguments.add_argument("--key-groups", type=int, default=256)
    arguments.add_argument("--repeat", type=int, default=3, help="reads of each form; the median is printed")
    given = arguments.parse_args()
    spark = build_session(SparkSettings.from_environment())
    with tempfile.TemporaryDirectory(prefix="keyfold-") as folder:
        lakehouse = Lakehouse(Path(folder) / "home")
        create_table(lakehouse.events(SALES.name), SALES.schema)
        table = Path(folder) / "totals.parquet"
        totals(given.keys).sink_parquet(table)
        job = build_job(JOBS["purchase_totals"], {"key_groups": given.key_groups})
        bootstrap(spark, lakehouse, job, Bootstrap(str(table), read_from="latest"))

        def state() -> StateRows:
            return read_state(spark, lakehouse, job)

        size = sum(rows.estimated_size() for rows in state().frames())
        found = state_statistics(lakehouse, state())
        print(f"{found.keys:,} keys, {size / MB:,.0f} MB of state, {found.bytes / MB:,.0f} MB as it is stored")
        out = Path(folder) / "out"
        forms: dict[str, Callable[[], Any]] = {
            "keyed-json": lambda: write_state(state(), out, "keyed-json"),
            "jsonl": lambda: write_state(state(), out, "jsonl"),
            "parquet": lambda: write_state(state(), out, "parquet"),
            "polars, in the driver": lambda: sum(rows.height for rows in state().frames()),
            "statistics": lambda: state_statistics(lakehouse, state()),
            "one key": lambda: read_state(spark, lakehouse, job, keys=["item-000000007"]).polars(),
            "diff with itself": lambda: diff_states(state(), state()).summary(),
        }
        for name, read in forms.items():
            _measure(name, read, out, size, given.repeat)
    spark.stop()


def _measure(name: str, read: Callable[[], Any], out: Path, size: float, repeat: int) -> None:
    seconds, processor, peaks = [], [], []
    for _ in range(repeat):
        memory = PeakMemory(os.getpid())
        memory.start()
        used, began = processor_seconds(os.getpid()), time.monotonic()
        read()
        seconds.append(time.monotonic() - began)
        processor.append(processor_seconds(os.getpid()) - used)
        peaks.append(memory.stop())
        shutil.rmtree(out, ignore_errors=True)
    wall, work = statistics.median(seconds), statistics.median(processor)
    print(
        f"{name:>22}: {wall:6.2f} s, {size / MB / wall:6.0f} MB/s; {work:6.2f} processor s, "
        f"{size / MB / work:6.0f} MB a processor second; peak {max(peaks) / 2**30:.2f} GiB"
    )


if __name__ == "__main__":
    main()
