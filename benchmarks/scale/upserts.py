"""`python -m benchmarks.scale.upserts`: measure batches of changed keys on a table with one row per key (`latest_` tables).

The table is built by merges of a million new keys each. Then follow batches of `--changed` keys, spread evenly over all keys.
For each batch it prints bytes of data files and log written, files, seconds, and
processor seconds of this process and its workers. `--whole` merges without leaves.
"""

import argparse
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import keyfold
from benchmarks.usage import processor_seconds
from keyfold.keyed.rows.hashing import key_hash
from keyfold.lakehouse import create_table
from keyfold.lakehouse.data_files import STAGED, WrittenFile, write_data_file
from keyfold.lakehouse.merging import merge_files
from keyfold.lakehouse.reading import scan_table

_AT_ONCE = 1_000_000
_SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("events", pa.int64()),
        ("value", pa.float64()),
        ("time", pa.timestamp("us", tz="UTC")),
    ]
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.upserts", description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--changed", type=int, nargs="*", default=[1_000, 100_000])
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--whole", action="store_true", help="merge without leaves")
    arguments = parser.parse_args()
    with keyfold.build_session() as spark, tempfile.TemporaryDirectory(prefix="keyfold-upserts-") as made:
        table = _Table(spark, Path(made) / "t", whole=arguments.whole)
        for first in range(0, arguments.keys, _AT_ONCE):
            table.take(np.arange(first, min(first + _AT_ONCE, arguments.keys)))
        print(f"{arguments.keys:,} keys: {table.describe()}", flush=True)
        chance = np.random.default_rng(1)
        for changed in arguments.changed:
            for _ in range(arguments.batches):
                keys = chance.choice(arguments.keys, changed, replace=False)
                print(f"  {changed:,} changed: {table.take(keys)}", flush=True)
            print(f"  {table.describe()}", flush=True)


class _Table:
    def __init__(self, spark: SparkSession, path: Path, *, whole: bool) -> None:
        self._spark, self._path, self._whole, self._batch = spark, path, whole, 0
        self._chance = np.random.default_rng(2)
        create_table(path, _SCHEMA)

    def take(self, keys: np.ndarray) -> str:
        """Merge a batch, and return a line about its cost."""
        # Keys are spread like hashes, since consecutive keys would compress to nothing.
        spread = (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
        values = self._chance.random(len(keys))
        now = datetime(2026, 1, 1, tzinfo=UTC)
        frame = pl.DataFrame({"key": spread, "events": self._batch, "value": values, "time": now})
        frame = frame.with_columns(pl.col("time") + pl.duration(microseconds=pl.col("key") % 10**10))
        frame = frame.cast({"events": pl.Int64, "time": pl.Datetime("us", "UTC")})
        staged: list[WrittenFile] = [write_data_file(frame, self._path, _SCHEMA, STAGED)]
        before, log, began, processor = self._files(), self._log(), time.monotonic(), processor_seconds(os.getpid())
        hash_of = None if self._whole else key_hash
        merge_files(self._spark, self._path, staged, ["key"], "benchmark", self._batch, hash_of)
        seconds, processor = time.monotonic() - began, processor_seconds(os.getpid()) - processor
        self._batch += 1
        new = {path: size for path, size in self._files().items() if path not in before}
        return (
            f"{sum(new.values()) / 1e6:,.1f} MB in {len(new):,} files, log {(self._log() - log) / 1e6:.2f} MB; "
            f"{seconds:.2f} s, {processor:.2f} processor s"
        )

    def describe(self) -> str:
        """A line about the table, and the time to open and read it."""
        began = time.monotonic()
        files = DeltaTable(str(self._path)).get_add_actions()["size_bytes"].to_pylist()
        opened = time.monotonic() - began
        rows = scan_table(self._path).select(pl.len(), pl.col("value").sum()).collect()["len"][0]
        return (
            f"{rows:,} rows in {len(files):,} files, {sum(files) / 1e6:,.0f} MB; opened in {opened:.2f} s, "
            f"read in {time.monotonic() - began - opened:.2f} s"
        )

    def _files(self) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in self._path.glob("*.parquet")}

    def _log(self) -> int:
        return sum(path.stat().st_size for path in (self._path / "_delta_log").iterdir())


if __name__ == "__main__":
    main()
