"""Compare ingest with Spark's and DuckDB's own reading of the same files: `python -m benchmarks.ingest`.

All run in turn in one warm process, each in a new lakehouse. `ingest` validates, de-duplicates and commits 16 NDJSON files of
ride points, on Spark; `local` does the same in this process. `spark` reads them with a given schema and writes Parquet, without
validation or de-duplication. `duckdb` reads them with types, checks ranges, takes each id once (`DISTINCT ON`), and writes one
Parquet file.
"""

import os
from functools import partial
from pathlib import Path

import duckdb
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
            for name, run in CONTESTANTS.items()
        }
        figures = by_turns(runs, folder, REPEAT)
    slope = {name: (LARGE - SMALL) / (figures[name, LARGE].best - figures[name, SMALL].best) for name in CONTESTANTS}
    rows = [
        (
            name,
            *(listed(figures[name, size].seconds) for size in (SMALL, LARGE)),
            f"{rate:,.0f}",
            listed(figures[name, LARGE].processor, 1),
        )
        for name, rate in slope.items()
    ]
    headings = ("contestant", f"{SMALL:,} rows, s", f"{LARGE:,} rows, s", "rows/s, slope", "processor s, large")
    print_table(f"NDJSON to a table, {os.cpu_count()} cores", headings, rows)
    ours, theirs = figures["ingest", LARGE], figures["spark", LARGE]
    by_processor = np.median(theirs.processor) / np.median(ours.processor)
    print(
        f"ingest is {theirs.best / ours.best:.2f} x as fast, best of large runs; {slope['ingest'] / slope['spark']:.2f} x by the "
        f"slope; {by_processor:.2f} x by processor time, median of large runs"
    )
    local, duck = figures["local", LARGE], figures["duckdb", LARGE]
    print(
        f"local takes {local.best / duck.best:.2f} x DuckDB's time, best of large runs; "
        f"{np.median(local.processor) / LARGE * 1e6:.2f} µs of processor time a row, DuckDB {np.median(duck.processor) / LARGE * 1e6:.2f}"
    )


def _ingest(spark: Runners, landing: Path, rows: int, home: Path) -> None:
    assert ingest(Lakehouse(home), RIDE_POINTS, landing, runners=spark).accepted == rows  # noqa: S101


def _spark(spark: Runners, landing: Path, rows: int, home: Path) -> None:
    table = str(home / "events")
    spark.session.read.schema(_SCHEMA).json(str(landing)).write.format("parquet").mode("append").save(table)
    assert pl.scan_parquet(f"{table}/*.parquet").select(pl.len()).collect().item() == rows  # noqa: S101


def _local(_: Runners, landing: Path, rows: int, home: Path) -> None:
    assert ingest(Lakehouse(home), RIDE_POINTS, landing, runners=Runners("local")).accepted == rows  # noqa: S101


def _duckdb(_: Runners, landing: Path, rows: int, home: Path) -> None:
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in (column.split() for column in _SCHEMA.split(", ")))
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT DISTINCT ON (ride_id, point_idx) * "  # noqa: S608 - our own columns and folders
            f"FROM read_json('{landing}/*.ndjson', columns = {{{columns}}}, format = 'nd') "
            "WHERE latitude BETWEEN -90 AND 90 AND longitude BETWEEN -180 AND 180 AND point_idx >= 0) "
            f"TO '{home}/events.parquet' (FORMAT parquet)"
        )
    assert pl.scan_parquet(home / "events.parquet").select(pl.len()).collect().item() == rows  # noqa: S101


CONTESTANTS = {"ingest": _ingest, "local": _local, "spark": _spark, "duckdb": _duckdb}


if __name__ == "__main__":
    main()
