"""Measure merges of few changed keys into an upsert table: Keyfold's leaves, and Delta's own MERGE (delta-rs), by turns.

`python -m benchmarks.upserts [ROWS] [ROUNDS]`: a table of accounts (64 random bits as text, a time, an amount), of which 1,000 random
ones change in each round. Both tables are on one disk, and hold the same rows at the end.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, WriterProperties

from benchmarks.balances import accounts
from keyfold.keyed.rows.hashing import key_hash
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import STAGED, write_data_file
from keyfold.lakehouse.merging import merge_files
from keyfold.lakehouse.reading import scan_table
from keyfold.runners import Runners
from keyfold.storage.disk_path import DiskPath

SCHEMA = pa.schema([("account", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("amount", pa.int64())])
CHANGED = 1_000
_ROWS_A_FILE = 2_500_000
"""As a first run writes them: some 70 MB."""


def rows_of(numbers: np.ndarray, batch: int) -> pl.DataFrame:
    """The rows of accounts after a batch."""
    times = pl.Series("at", np.full(len(numbers), 1_760_000_000_000_000 + batch)).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame({"account": accounts(numbers), "at": times, "amount": numbers + batch})


def filled(table: DiskPath, rows: int) -> DiskPath:
    """Make a table with a row for each account."""
    create_table(table, SCHEMA)
    for batch, first in enumerate(range(0, rows, _ROWS_A_FILE)):
        frame = rows_of(np.arange(first, min(rows, first + _ROWS_A_FILE)), 0)
        append_files(table, [write_data_file(frame, table, SCHEMA)], "filled", batch)
    return table


def with_leaves(table: DiskPath, rows: pl.DataFrame, batch: int) -> None:
    """Merge rows as a run does."""
    staged = write_data_file(rows, table, SCHEMA, STAGED)
    merge_files(Runners("local"), table, [staged], ["account"], "merged", batch, key_hash)
    (table / staged.path).unlink()


def with_delta(table: DiskPath, rows: pl.DataFrame, batch: int) -> None:
    """Merge rows by delta-rs, with the compression that Keyfold writes."""
    properties = WriterProperties(compression="SNAPPY")
    merge = DeltaTable(table).merge(
        rows.to_arrow(), "target.account = source.account", "source", "target", writer_properties=properties
    )
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def main(rows: int = 1_000_000, rounds: int = 7) -> None:
    """Merge by turns, and print the median of each way's seconds and of the bytes that it wrote."""
    ways: dict[str, Callable[[DiskPath, pl.DataFrame, int], None]] = {"leaves": with_leaves, "delta-rs": with_delta}
    folder, chance = DiskPath(tempfile.mkdtemp(prefix="upserts-")), np.random.default_rng(1)
    try:
        tables = {name: filled(folder / name, rows) for name in ways}
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        processor: dict[str, list[float]] = {name: [] for name in ways}
        for batch in range(rounds):
            changed = rows_of(chance.choice(rows, CHANGED, replace=False), 1 + batch)
            for name, merge in ways.items():
                before, began = sum(os.times()[:2]), time.perf_counter()
                merge(tables[name], changed, batch)
                seconds[name].append(time.perf_counter() - began)
                processor[name].append(sum(os.times()[:2]) - before)
                print(
                    f"round {batch}: {name} {seconds[name][-1]:.2f} s, {processor[name][-1]:.2f} s of processor",
                    flush=True,
                )
        # The first rounds divide the table into leaves.
        for name in ways:
            files = DeltaTable(tables[name]).get_add_actions().num_rows
            print(
                f"{rows:,} rows, {name}: {median(seconds[name][2:]):.2f} s, {median(processor[name][2:]):.2f} s of processor, "
                f"{files:,} files"
            )
        same = [
            scan_table(tables[name]).select(pl.len(), pl.sum("amount"), pl.col("at").max()).collect() for name in ways
        ]
        if not same[0].equals(same[1]):
            raise SystemExit(f"the tables differ: {same}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
