"""Compare ingest with Spark's own reading of the same files: `python -m benchmarks.ingest`.

Both run in turn in one warm process, each in a new lakehouse. `ingest` validates, de-duplicates and commits 16 NDJSON files of
ride points. `spark` reads them with a given schema and writes Parquet, without validation or de-duplication.
"""

import os
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.runs import by_turns, listed, print_table, ride_files, runners_and_folder
from keyfold import Lakehouse, ingest
from keyfold.runners import Runners
from spark_jobs.streams import RIDE_POINTS

SMALL, LARGE, REPEAT = 500_000, 2_000_000, 5
_SCHEMA = (
    "ride_id string, point_idx int, latitude double, longitude double, timestamp timestamp, meter_reading double, "
    "meter_increment double, ride_status string, passenger_count int"
)


def main() -> None:
    with runners_and_folder() as (spark, folder):
        landed = {size: ride_files(folder / f"{size}", size) for size in (SMALL, LARGE)}
        runs = {
            (name, size): partial(run, spark, landing, size)
            for size, landing in landed.items()
            for name, run in {"ingest": _ingest, "spark": _spark}.items()
        }
        found = by_turns(runs, folder, REPEAT)
    slope = {one: (LARGE - SMALL) / (found[one, LARGE].best - found[one, SMALL].best) for one in ("ingest", "spark")}
    rows = [
        (
            name,
            *(listed(found[name, size].seconds) for size in (SMALL, LARGE)),
            f"{rate:,.0f}",
            listed(found[name, LARGE].processor, 1),
        )
        for name, rate in slope.items()
    ]
    headings = ("contestant", f"{SMALL:,} rows, s", f"{LARGE:,} rows, s", "rows/s, slope", "processor s, large")
    print_table(f"NDJSON to a table, {os.cpu_count()} cores", headings, rows)
    ours, theirs = found["ingest", LARGE], found["spark", LARGE]
    by_processor = np.median(theirs.processor) / np.median(ours.processor)
    print(
        f"ingest is {theirs.best / ours.best:.2f} x as fast, best of large runs; {slope['ingest'] / slope['spark']:.2f} x by the "
        f"slope; {by_processor:.2f} x by processor time, median of large runs"
    )


def _ingest(spark: Runners, landing: Path, rows: int, home: Path) -> None:
    assert ingest(Lakehouse(home), RIDE_POINTS, landing, runners=spark).accepted == rows  # noqa: S101


def _spark(spark: Runners, landing: Path, rows: int, home: Path) -> None:
    table = str(home / "events")
    spark.session.read.schema(_SCHEMA).json(str(landing)).write.format("parquet").mode("append").save(table)
    assert pl.scan_parquet(f"{table}/*.parquet").select(pl.len()).collect().item() == rows  # noqa: S101


if __name__ == "__main__":
    main()
