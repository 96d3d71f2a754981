"""Compare ingest with Spark's own reading of the same files, and measure de-duplication: `python -m benchmarks.ingest`.

Both run in turn in one warm process, each in a new lakehouse. `ingest` validates, de-duplicates and commits 16 NDJSON files of
ride points. `spark` reads them with a given schema and writes Delta, without validation or de-duplication.

`--history N` measures runs of 1,000 and 1 M rows in a lakehouse with N earlier events (a generated index of ids; the table is
empty): first new events among them in time, then the same events again.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.memory import PeakMemory, processor_seconds
from keyfold import Lakehouse, build_session, ingest
from keyfold.ingestion.duplicates import Ids
from keyfold.ingestion.inspection import ingest_journal
from keyfold.ingestion.segments import write_segment
from keyfold.session import SparkSettings
from spark_jobs.simulation import ride_points_table
from spark_jobs.streams import RIDE_POINTS

FILES = 16
POINTS_A_RIDE = 50
START = datetime(2026, 1, 1, tzinfo=UTC)
SEGMENT_ROWS = 8 << 20
_SCHEMA = (
    "ride_id string, point_idx int, latitude double, longitude double, timestamp timestamp, meter_reading double, "
    "meter_increment double, ride_status string, passenger_count int"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    parser.add_argument("--small", type=int, default=500_000, help="rows of the small set")
    parser.add_argument("--large", type=int, default=2_000_000, help="rows of the large set")
    parser.add_argument("--repeat", type=int, default=5, help="warm runs of each size")
    parser.add_argument("--history", type=int, default=0, help="earlier events to find duplicates among")
    arguments = parser.parse_args()
    spark = build_session(SparkSettings.from_environment())
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as folder:
        if arguments.history:
            against_history(spark, Path(folder), arguments.history, arguments.repeat)
        else:
            against_spark(spark, Path(folder), arguments.small, arguments.large, arguments.repeat)
    spark.stop()


def against_spark(spark: SparkSession, folder: Path, small: int, large: int, repeat: int) -> None:
    """Print whole warm runs, the slope between the two sizes, and the ratios."""
    sets = {size: _write_points(folder / f"{size}", size, 1) for size in (small, large)}
    contestants: dict[str, Callable[[SparkSession, Path, Path], int]] = {"ingest": _ingest, "spark": _spark}
    seconds: dict[tuple[str, int], list[float]] = {(name, size): [] for name in contestants for size in sets}
    cold: dict[str, float] = {}
    used: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeat + 1):
        for size, landing in sets.items():
            for name, contestant in contestants.items():
                before = processor_seconds(os.getpid())
                took = _timed(lambda home, run=contestant, at=landing: run(spark, home, at), folder, size)
                if turn and size == large:
                    used[name].append(processor_seconds(os.getpid()) - before)
                if turn:
                    seconds[name, size].append(took)
                else:
                    cold.setdefault(name, took)
    table = Table(title=f"NDJSON to Delta, {small:,} and {large:,} rows, {os.cpu_count()} cores")
    for column in (
        "contestant",
        "small s",
        "large s",
        "rows/s, best large",
        "rows/s, slope",
        "cold small s",
        "processor s, large",
    ):
        table.add_column(column, justify="left" if column == "contestant" else "right")
    best = {key: min(runs) for key, runs in seconds.items()}
    slope = {name: (large - small) / (best[name, large] - best[name, small]) for name in contestants}
    for name in contestants:
        table.add_row(
            name,
            *(" ".join(f"{one:.2f}" for one in seconds[name, size]) for size in sets),
            f"{large / best[name, large]:,.0f}",
            f"{slope[name]:,.0f}",
            f"{cold[name]:.1f}",
            " ".join(f"{one:.1f}" for one in used[name]),
        )
    console = Console(width=170)
    console.print(table)
    median = {key: float(np.median(runs)) for key, runs in seconds.items()}
    console.print(
        f"ingest is {best['spark', large] / best['ingest', large]:.2f} x as fast, best of large runs; "
        f"{median['spark', large] / median['ingest', large]:.2f} x, median of large runs; "
        f"{slope['ingest'] / slope['spark']:.2f} x by the slope; "
        f"{np.median(used['spark']) / np.median(used['ingest']):.2f} x by processor time, median of large runs"
    )


def against_history(spark: SparkSession, folder: Path, events: int, repeat: int) -> None:
    """Print the time of runs in a lakehouse with this many earlier events."""
    table = Table(title=f"runs of ingest with {events:,} earlier events in 30 days, seconds, {os.cpu_count()} cores")
    for column in ("rows", "what", "without history", "with it", "peak GiB of this process"):
        table.add_column(column, justify="left" if column == "what" else "right")
    homes = {0: Lakehouse(folder / "none"), events: Lakehouse(folder / "many")}
    warm_up = _write_points(folder / "warm-up", 10_000, 2)
    for lakehouse in homes.values():
        ingest(spark, lakehouse, RIDE_POINTS, warm_up)
    _make_up(homes[events], events)
    for rows in (1_000, 1_000_000):
        seconds: dict[tuple[str, int], list[float]] = {}
        memory = PeakMemory(os.getpid())
        memory.start()
        for turn in range(repeat):
            landing = _write_points(folder / f"{rows}-{turn}", rows, 10 + turn)
            again = folder / f"{rows}-{turn}-again"
            shutil.copytree(landing, again)
            for history, lakehouse in homes.items():
                for what, source in (("new", landing), ("sent again", again)):
                    began = time.monotonic()
                    summary = ingest(spark, lakehouse, RIDE_POINTS, source)
                    seconds.setdefault((what, history), []).append(time.monotonic() - began)
                    assert summary.duplicates == (0 if what == "new" else summary.rows_read)  # noqa: S101
        peak = memory.stop()
        for what in ("new", "sent again"):
            runs = [" ".join(f"{one:.2f}" for one in seconds[what, history]) for history in homes]
            table.add_row(f"{rows:,}", what, *runs, f"{peak / 2**30:.1f}")
    Console(width=150).print(table)


def _make_up(lakehouse: Lakehouse, events: int) -> None:
    """Add generated events to an index of ids, in segments of the sizes that merging leaves."""
    journal, folder = ingest_journal(lakehouse, RIDE_POINTS.name), lakehouse.ingest(RIDE_POINTS.name) / "ids"
    done = journal.last_done()
    assert done is not None  # noqa: S101
    random, segments = np.random.default_rng(0), list(done.segments)
    span = int(timedelta(days=30) / timedelta(microseconds=1))
    first = int(START.timestamp() * 1e6) - span // 2
    count = -(-events // SEGMENT_ROWS)
    for number in range(count):
        rows = min(SEGMENT_ROWS, events - number * SEGMENT_ROWS)
        hashes = np.sort(random.integers(0, 2**64, rows, np.uint64))
        # All segments overlap the new events in time, so that none can be skipped.
        times = first + random.integers(0, span, rows)
        segments.append(write_segment(folder, Ids(hashes, random.integers(0, 2**64, rows, np.uint64), times)))
    journal.write_done(done.model_copy(update={"segments": tuple(segments)}))


def _ingest(spark: SparkSession, home: Path, landing: Path) -> int:
    return ingest(spark, Lakehouse(home), RIDE_POINTS, landing).accepted


def _spark(spark: SparkSession, home: Path, landing: Path) -> int:
    table = str(home / "events")
    spark.read.schema(_SCHEMA).json(str(landing)).write.format("delta").mode("append").save(table)
    return pl.scan_delta(table).select(pl.len()).collect().item()


def _timed(run: Callable[[Path], int], folder: Path, rows: int) -> float:
    home = Path(tempfile.mkdtemp(dir=folder))
    began = time.monotonic()
    written = run(home)
    took = time.monotonic() - began
    assert written == rows  # noqa: S101
    shutil.rmtree(home)
    return took


def _write_points(folder: Path, rows: int, seed: int) -> Path:
    points = ride_points_table(rows // POINTS_A_RIDE, POINTS_A_RIDE, seed=seed, start=START)
    text = points.with_columns(pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
    folder.mkdir(parents=True)
    for number, part in enumerate(text.iter_slices(-(-text.height // FILES))):
        part.write_ndjson(folder / f"{number:03d}.ndjson")
    return folder


if __name__ == "__main__":
    main()
