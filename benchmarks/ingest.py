"""Compare ingest with Spark's own reading of the same files, and measure de-duplication: `python -m benchmarks.ingest`.

Both run in turn in one warm process, each in a new lakehouse. `ingest` validates, de-duplicates and commits 16 NDJSON files of
ride points. `spark` reads them with a given schema and writes Delta, without validation or de-duplication.

`--history N` measures runs of 1,000 and 1 M rows in a lakehouse with N earlier events (a generated index of ids; the table is
empty): first new events among them in time, then the same events again.
"""

import argparse
import os
import shutil
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from pyspark.sql import SparkSession

from benchmarks.runs import START, by_turns, listed, print_table, ride_files, spark_and_folder
from benchmarks.usage import PeakMemory
from keyfold import Lakehouse, ingest
from keyfold.ingestion import KafkaTopic
from keyfold.ingestion.duplicates import Ids
from keyfold.ingestion.inspection import ingest_journal
from keyfold.ingestion.segments import write_segment
from spark_jobs.streams import RIDE_POINTS

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
    with spark_and_folder() as (spark, folder):
        if arguments.history:
            against_history(spark, folder, arguments.history, arguments.repeat)
        else:
            against_spark(spark, folder, arguments.small, arguments.large, arguments.repeat)


def against_spark(spark: SparkSession, folder: Path, small: int, large: int, repeat: int) -> None:
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


def against_history(spark: SparkSession, folder: Path, events: int, repeat: int) -> None:
    """Print the time of runs in a lakehouse with this many earlier events."""
    lines: list[tuple[str, ...]] = []
    homes = {0: Lakehouse(folder / "none"), events: Lakehouse(folder / "many")}
    warm_up = ride_files(folder / "warm-up", 10_000, 2)
    for lakehouse in homes.values():
        ingest(spark, lakehouse, RIDE_POINTS, warm_up)
    _make_up(homes[events], events)
    for rows in (1_000, 1_000_000):
        seconds: dict[tuple[str, int], list[float]] = {}
        memory = PeakMemory(os.getpid())
        memory.start()
        for turn in range(repeat):
            landing = ride_files(folder / f"{rows}-{turn}", rows, 10 + turn)
            again = folder / f"{rows}-{turn}-again"
            shutil.copytree(landing, again)
            for history, lakehouse in homes.items():
                for what, source in (("new", landing), ("sent again", again)):
                    began = time.monotonic()
                    summary = ingest(spark, lakehouse, RIDE_POINTS, source)
                    seconds.setdefault((what, history), []).append(time.monotonic() - began)
                    assert summary.duplicates == (0 if what == "new" else summary.rows_read)  # noqa: S101
        peak = memory.stop()["all"]
        for what in ("new", "sent again"):
            runs = [listed(seconds[what, history]) for history in homes]
            lines.append((what, f"{rows:,}", *runs, f"{peak / 2**30:.1f}"))
    print_table(
        f"runs of ingest with {events:,} earlier events in 30 days, seconds, {os.cpu_count()} cores",
        ("what", "rows", "without history", "with it", "peak GiB of this process"),
        lines,
    )


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


def ingest_files(spark: SparkSession, source: Path | KafkaTopic, rows: int, home: Path) -> None:
    """Ingest files, or a topic, into a new lakehouse."""
    assert ingest(spark, Lakehouse(home), RIDE_POINTS, source).accepted == rows  # noqa: S101


def _spark(spark: SparkSession, landing: Path, rows: int, home: Path) -> None:
    table = str(home / "events")
    spark.read.schema(_SCHEMA).json(str(landing)).write.format("delta").mode("append").save(table)
    assert pl.scan_delta(table).select(pl.len()).collect().item() == rows  # noqa: S101


if __name__ == "__main__":
    main()
