"""`python -m benchmarks.reprocess [--events N] [--keys N] [--runner local]`: a day of thirty computed again, and a run over that day.

Windows of an hour, with other code. Processor seconds of this process and its children, the median of turns, since the machine's load varies.
"""

import argparse
import os
import shutil
import statistics
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.runs import runners_and_folder
from benchmarks.usage import processor_seconds
from keyfold import Input, KeyedJob, Lakehouse, Stream, required
from keyfold.journal.audit import Author
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.operators import count, sum, windows
from keyfold.runners import Runners
from keyfold.runs.reprocess import reprocess

START, DAY, DAYS, FILES_A_DAY = datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=1), 30, 4
SALE = [required("shop", pl.Int64, "Where"), required("at", pl.Datetime("us", "UTC"), "When"), ("cents", pl.Int64)]
SALES = Stream("sales", SALE, event_time="at")
TURNS = 3
WHY = Author("a benchmark", "to measure")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reprocess", description=__doc__)
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--runner", default="local", choices=["spark", "local"])
    arguments = parser.parse_args()
    with runners_and_folder(arguments.runner) as (runners, folder):
        whole, day = Lakehouse(folder / "whole"), DAYS // 2
        for number in range(DAYS):
            _land(whole, number, arguments.events // DAYS, arguments.keys)
        of_history = _seconds(lambda: run_job(whole, _job(1), runners=runners))
        runs, spans, looks = [], [], []
        since = START + day * DAY
        for turn in range(TURNS):
            runs.append(_run_of_day(runners, folder / f"day-{turn}", day, arguments.events // DAYS, arguments.keys))
            again = partial(reprocess, whole, _job(2 + turn), since, since + DAY, author=WHY, runners=runners)
            looks.append(_seconds(again))
            spans.append(_seconds(partial(again, yes=True)))
    run, span, look = map(statistics.median, (runs, spans, looks))
    print(
        f"{arguments.events:,} events of {DAYS} days, {arguments.keys:,} keys, on {os.cpu_count()} cores, {arguments.runner}"
    )
    print(f"all days: {of_history:.1f} s of processor time")
    for name, seconds, values in (
        ("a run of one day", run, runs),
        ("reprocess, a look", look, looks),
        ("reprocess --yes", span, spans),
    ):
        print(
            f"{name}: {seconds:.2f} s of processor time ({min(values):.2f} to {max(values):.2f}), {seconds / run:.2f} of the run"
        )


def _job(factor: int) -> KeyedJob:
    """A job whose code, and not whose declaration, differs by the factor."""
    worth = pl.col("cents").map_batches(lambda cents: cents * factor, return_dtype=pl.Int64)
    source = Input(SALES.derive(worth=worth), columns=["shop", "at", "worth"])
    return windows("hourly", source, {"worth": sum("worth"), "sales": count()}, key="shop", length="1h")


def _land(lakehouse: Lakehouse, day: int, events: int, keys: int) -> None:
    table, rng = lakehouse.events("sales"), np.random.default_rng(day)
    create_table(table, SALES.schema)
    for part in range(FILES_A_DAY):
        micros = np.sort(rng.integers(0, DAY // FILES_A_DAY // timedelta(microseconds=1), events // FILES_A_DAY))
        at = pl.Series(micros).cast(pl.Duration("us")) + (START + day * DAY + part * DAY / FILES_A_DAY)
        rows = pl.DataFrame(
            {"shop": rng.integers(0, keys, at.len()), "at": at, "cents": rng.integers(1, 9_999, at.len())}
        )
        append_files(table, [write_data_file(rows, table, SALES.schema)], "benchmark", day * FILES_A_DAY + part)


def _run_of_day(runners: Runners, folder: Path, day: int, events: int, keys: int) -> float:
    lakehouse = Lakehouse(folder)
    _land(lakehouse, day, events, keys)
    until = Incremental(advance_to=START + (day + 1) * DAY)
    seconds = _seconds(lambda: run_job(lakehouse, _job(1), until, runners=runners))
    shutil.rmtree(folder)
    return seconds


def _seconds(work: Callable[[], object]) -> float:
    before = processor_seconds(os.getpid())
    work()
    return processor_seconds(os.getpid()) - before


if __name__ == "__main__":
    main()
