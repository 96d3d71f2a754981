"""A history of runs of each kind, which every runner has to report alike."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
from deltalake import write_deltalake

import keyfold
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental, Replay
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import RunOptions
from keyfold.lakehouse.reading import scan_table
from tests.keyfold.keyed.toy_jobs import sum_clicks, totals, windows
from tests.shop import START, clicks

HISTORY = [
    [("ann", 1), ("bob", 2), ("ann", 12)],
    [("bob", 3), ("cat", 25), ("ann", 26), ("ann", 26)],
    [("dan", 61), ("bob", 1)],
]
"""Clicks of each run. Some come late, some twice, and keys come and go."""
JOBS: dict[str, Callable[[], KeyedJob]] = {
    "append, with a combiner": lambda: windows(combine=sum_clicks, event_count=pl.col("clicks").sum()),
    "upsert": totals,
}
FILE_BY_FILE = RunOptions(max_bytes_per_batch=1)


def story(spark: Any, lakehouse: keyfold.Lakehouse, job: KeyedJob) -> list[Any]:
    """What each run of a history reports, and the tables after it."""
    reported: list[Any] = []
    for batch in HISTORY:
        land(lakehouse, batch)
        reported += after(keyfold.run(lakehouse, job, options=FILE_BY_FILE, runners=spark), lakehouse, job)
    closed = START + timedelta(hours=3)
    for mode in (
        Incremental(advance_to=closed),
        Replay("again", until=START + timedelta(minutes=30)),
        FullRefresh(closed),
    ):
        reported += after(keyfold.run(lakehouse, job, mode, runners=spark), lakehouse, job)
    return [*reported, keyfold.assert_nothing_lost(lakehouse, job)]


def after(done: Any, lakehouse: keyfold.Lakehouse, job: KeyedJob) -> list[Any]:
    rows = {
        name: sorted(scan_table(path).collect().rows(), key=repr)
        for name, path in lakehouse.tables().items()
        if name.partition("@")[0].removeprefix("late.") == job.name
    }
    return [done.counts, done.totals, done.watermark, len(done.batch_seconds), done.generation, rows]


def land(lakehouse: keyfold.Lakehouse, rows: list[tuple[str, int]]) -> None:
    """In two files, of which each makes a batch."""
    lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
    for part in (rows[:1], rows[1:]):
        write_deltalake(str(lakehouse.events("clicks")), clicks(*part), mode="append")
