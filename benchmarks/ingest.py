"""Compare ingest with Spark's own reading of the same files: `python -m benchmarks.ingest`.

Both run in turn in one warm process, each in a new lakehouse. `ingest` validates, de-duplicates and commits 16 NDJSON files of
ride points. `spark` reads them with a given schema and writes Parquet, without validation or de-duplication.
"""

import argparse
import os
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.runs import by_turns, listed, print_table, ride_files, runners_and_folder
from keyfold import Lakehouse, ingest
from keyfold.ingestion import KafkaTopic
from keyfold.runners import Runners
from spark_jobs.streams import RIDE_POINTS

_SCHEMA = (
    "ride_id string, point_idx int, latitude double, longitude double, timestamp timestamp, meter_reading double, "
    "meter_increment double, ride_status string, passenger_count int"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    parser.add_argument("--small", type=int, default=500_000, help="rows of the small set")
    parser.add_argument("--large", type=int, default=2_000_000, help="rows of the large set")
    parser.add_argument("--repeat", type=int, default=5, help="warm runs of each size")
    arguments = parser.parse_args()
    with runners_and_folder() as (spark, folder):
        against_spark(spark, folder, arguments.small, arguments.large, arguments.repeat)


def against_spark(spark: Runners, folder: Path, small: int, large: int, repeat: int) -> None:
    """Print whole warm runs, the slope between the two sizes, and the ratios."""
    landed = {size: ride_files(folder / f"{size}", size) for size in (small, large)}
    contestants = {"ingest": ingest_files, "spark": _spark}
    found = by_turns(
        {
            (name, size): partial(run, spark, landing, size)
            for size, landing in landed.items()
            for name, run in contestants.items()
        },
        folder,
        repeat,
    )
    slope = {name: (large - small) / (found[name, large].best - found[name, small].best) for name in contestants}
    print_table(
        f"NDJSON to Delta, {small:,} and {large:,} rows, {os.cpu_count()} cores",
        (
            "contestant",
            "small s",
            "large s",
            "rows/s, best large",
            "rows/s, slope",
            "cold small s",
            "processor s, large",
        ),
        (
            (
                name,
                *(listed(found[name, size].seconds) for size in landed),
                f"{large / found[name, large].best:,.0f}",
                f"{slope[name]:,.0f}",
                f"{found[name, small].cold:.1f}",
                listed(found[name, large].processor, 1),
            )
            for name in contestants
        ),
    )
    ours, theirs = found["ingest", large], found["spark", large]
    print(
        f"ingest is {theirs.best / ours.best:.2f} x as fast, best of large runs; "
        f"{np.median(theirs.seconds) / np.median(ours.seconds):.2f} x, median of large runs; "
        f"{slope['ingest'] / slope['spark']:.2f} x by the slope; "
        f"{np.median(theirs.processor) / np.median(ours.processor):.2f} x by processor time, median of large runs"
    )


def ingest_files(spark: Runners, source: Path | KafkaTopic, rows: int, home: Path) -> None:
    """Ingest files, or a topic, into a new lakehouse."""
    assert ingest(Lakehouse(home), RIDE_POINTS, source, runners=spark).accepted == rows  # noqa: S101


def _spark(spark: Runners, landing: Path, rows: int, home: Path) -> None:
    table = str(home / "events")
    spark.session.read.schema(_SCHEMA).json(str(landing)).write.format("parquet").mode("append").save(table)
    assert pl.scan_parquet(f"{table}/*.parquet").select(pl.len()).collect().item() == rows  # noqa: S101


if __name__ == "__main__":
    main()
