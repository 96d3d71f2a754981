"""Measure how fast a job's state is built from a table: `python -m benchmarks.bootstrap --keys 1000000`.

The table is a Parquet file with one row per key. The whole bootstrap is timed: every row is checked, written as the new
generation's seed, hashed, cut into key groups, and taken in by Spark's state store. In the same run, Polars alone reads the
table, sorts it by key and writes it once.
"""

import argparse
import tempfile
import time
from pathlib import Path

import polars as pl

from keyfold import Lakehouse, build_job, build_session
from keyfold.lakehouse import create_table
from keyfold.session import SparkSettings
from keyfold.state.making.bootstrap import Bootstrap, bootstrap
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import SALES


def main() -> None:
    """Print keys per second, and the ratio to Polars' sorting of the same table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--keys", type=int, default=1_000_000)
    arguments.add_argument("--key-groups", type=int, default=256)
    given = arguments.parse_args()
    spark = build_session(SparkSettings.from_environment())
    with tempfile.TemporaryDirectory(prefix="keyfold-") as folder:
        lakehouse = Lakehouse(Path(folder) / "home")
        create_table(lakehouse.events(SALES.name), SALES.schema)
        table = Path(folder) / "totals.parquet"
        totals(given.keys).sink_parquet(table)
        began = time.monotonic()
        pl.scan_parquet(table).sort("item").sink_parquet(Path(folder) / "sorted.parquet")
        sorting = time.monotonic() - began
        job = build_job(JOBS["purchase_totals"], {"key_groups": given.key_groups})
        began = time.monotonic()
        result = bootstrap(spark, lakehouse, job, Bootstrap(str(table), read_from="latest"))
        seconds = time.monotonic() - began
        print(
            f"{result.checked.keys:,} keys in {seconds:.1f} s: {result.checked.keys / seconds:,.0f} keys/s; Polars sorts and "
            f"writes the table in {sorting:.1f} s: {sorting / seconds:.2f} of its speed"
        )
    spark.stop()


def totals(keys: int) -> pl.LazyFrame:
    """State rows of `purchase_totals`, one per key."""
    number = pl.int_range(keys, eager=False)
    return pl.select(
        item=pl.lit("item-") + number.cast(pl.String).str.zfill(9),
        quantity=number % 1000 + 1,
        models=pl.concat_list(pl.lit("model-") + (number % 97).cast(pl.String)),
    ).lazy()


if __name__ == "__main__":
    main()
