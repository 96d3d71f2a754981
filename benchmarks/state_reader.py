"""How fast a job's state is made of a table, and read to files: `python -m benchmarks.state_reader [--keys 1000000]`.

The state is made by a bootstrap of totals, one row a key, from Parquet: every row checked, written as the new generation's
seed, hashed, cut into key groups, and taken in by Spark's state store. Beside it stands what Polars alone takes to read the
table, sort it by key and write it once. Then the state is read to local files in each
form, in one warm session; the first read of all is thrown away. Printed are whole reads: the wall's seconds, the
processor's seconds of all processes (which other work on the machine does not change), MB/s of state, and peak memory.
A state's size is that of its rows as columns in memory; what they take in the store, compressed, is printed beside.
"""

import argparse
import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.runs import spark_and_folder
from benchmarks.usage import PeakMemory, processor_seconds
from keyfold import Lakehouse, build_job, read_state
from keyfold.lakehouse import create_table
from keyfold.state.differences.diff import diff_states
from keyfold.state.making.bootstrap import Bootstrap, bootstrap
from keyfold.state.reading.export import write_state
from keyfold.state.reading.state_rows import StateRows
from keyfold.state.reading.state_statistics import state_statistics
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import SALES

MB = 1_000_000


def main() -> None:
    """Build the state, read it in each form, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.state_reader", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    keys = parser.parse_args().keys
    with spark_and_folder() as (spark, folder):
        lakehouse = Lakehouse(folder / "home")
        create_table(lakehouse.events(SALES.name), SALES.schema)
        table = folder / "totals.parquet"
        totals(keys).sink_parquet(table)
        job = build_job(JOBS["purchase_totals"], {"key_groups": 256})
        began = time.monotonic()
        pl.scan_parquet(table).sort("item").sink_parquet(folder / "sorted.parquet")
        sorting, began = time.monotonic() - began, time.monotonic()
        told = bootstrap(spark, lakehouse, job, Bootstrap(str(table), read_from="latest"))
        seconds = time.monotonic() - began
        print(
            f"{told.checked.keys:,} keys in {seconds:.1f} s: {told.checked.keys / seconds:,.0f} keys/s; Polars sorts and "
            f"writes the table in {sorting:.1f} s: {sorting / seconds:.2f} of its speed"
        )

        def state() -> StateRows:
            return read_state(spark, lakehouse, job)

        size = sum(rows.estimated_size() for rows in state().frames())
        found = state_statistics(lakehouse, state())
        print(f"{found.keys:,} keys, {size / MB:,.0f} MB of state, {found.bytes / MB:,.0f} MB as it is stored")
        out = folder / "out"
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
            _measure(name, read, out, size)


def _measure(name: str, read: Callable[[], Any], out: Path, size: float) -> None:
    """Print the medians of three reads."""
    seconds, processor, peaks = [], [], []
    for _ in range(3):
        memory = PeakMemory(os.getpid())
        memory.start()
        used, began = processor_seconds(os.getpid()), time.monotonic()
        read()
        seconds.append(time.monotonic() - began)
        processor.append(processor_seconds(os.getpid()) - used)
        peaks.append(memory.stop()["all"])
        shutil.rmtree(out, ignore_errors=True)
    wall, work = statistics.median(seconds), statistics.median(processor)
    print(
        f"{name:>22}: {wall:6.2f} s, {size / MB / wall:6.0f} MB/s; {work:6.2f} processor s, "
        f"{size / MB / work:6.0f} MB a processor second; peak {max(peaks) / 2**30:.2f} GiB"
    )


def totals(keys: int) -> pl.LazyFrame:
    """Totals as `purchase_totals` keeps them, a row a key."""
    number = pl.int_range(keys, eager=False)
    return pl.select(
        item=pl.lit("item-") + number.cast(pl.String).str.zfill(9),
        quantity=number % 1000 + 1,
        models=pl.concat_list(pl.lit("model-") + (number % 97).cast(pl.String)),
    ).lazy()


if __name__ == "__main__":
    main()
