"""`python -m benchmarks.trials [EVENTS]`: what a trial of a job costs, of all keys and of a share of them.

Events of 30 days and a million keys are summed up by key and hour. The live generation has read all of them, so that a trial of the
same job finds no difference. Processor seconds are of this process, which does all the work.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold import Lakehouse, Stream, required
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.operators import count, max, sum, windows
from keyfold.runners import Runners
from keyfold.state.changing.trying import Trial, try_job
from keyfold.times import micros

KEYS, DAYS = 1_000_000, 30
SHARES = (0.001, 0.01, 0.1, None)
START = datetime(2026, 1, 1, tzinfo=UTC)
EVENT = pa.schema(
    [
        required("user", pa.string(), "Who"),
        required("at", pa.timestamp("us", "UTC"), "When"),
        required("amount", pa.float64(), "How much"),
        required("kind", pa.string(), "What"),
    ]
)
SALES = Stream("sales", EVENT, event_time="at")
_EVENTS_A_FILE = 1_000_000
_MOST_OF_ALL = 20_000_000
"""Events up to which all keys are tried too."""


def hourly() -> KeyedJob:
    """Sums by key and hour."""
    of = {"n": count(), "total": sum("amount"), "highest": max("amount")}
    return windows("hourly", SALES, of, key="user", length="1h")


def land(lakehouse: Lakehouse, events: int) -> None:
    """Write events to the event table, in files that follow each other in time."""
    table, rng = lakehouse.events(SALES.name), np.random.default_rng(1)
    create_table(table, EVENT)
    files = -(-events // _EVENTS_A_FILE)
    span = micros(START + timedelta(days=DAYS)) - micros(START)
    for number in range(files):
        at = micros(START) + number * span // files + np.sort(rng.integers(0, span // files, _EVENTS_A_FILE))
        users = pl.Series(rng.integers(0, KEYS, _EVENTS_A_FILE)).cast(pl.String).str.pad_start(7, "0")
        rows = pl.DataFrame(
            {
                "user": "user-" + users,
                "at": pl.Series(at).cast(pl.Datetime("us", "UTC")),
                "amount": rng.random(_EVENTS_A_FILE).round(2) * 100,
                "kind": pl.Series(rng.integers(0, 5, _EVENTS_A_FILE)).cast(pl.String),
            }
        )
        append_files(table, [write_data_file(rows, table, EVENT)], "benchmark", number)


def measured(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what work returns, and its seconds and processor seconds."""
    began, used = time.monotonic(), time.process_time()
    result = work()
    return result, time.monotonic() - began, time.process_time() - used


def tried(lakehouse: Lakehouse, share: float | None) -> Trial:
    """Try the job, and compare."""
    trial = try_job(lakehouse, hourly(), "trial", share=share, runners=Runners("local"))
    differing = [name for name, table in trial.tables.items() if not table.summary().is_equal]
    if differing:
        raise SystemExit(f"{differing} differ")
    return trial


def main(events: int) -> None:
    with tempfile.TemporaryDirectory(prefix="keyfold-trials-") as folder:
        lakehouse = Lakehouse(Path(folder) / "home")
        land(lakehouse, events)
        _, seconds, used = measured(lambda: run_job(lakehouse, hourly(), runners=Runners("local")))
        print(f"{events:,} events: a run over all of them {seconds:.1f} s, {used:.1f} processor s", flush=True)
        for share in (share for share in SHARES if share is not None or events <= _MOST_OF_ALL):
            trial, seconds, used = measured(lambda share=share: tried(lakehouse, share))
            label = "all keys" if share is None else f"{100 * share:g} % of the keys"
            print(f"{label}: {trial.run.counts.events:,} events, {seconds:.1f} s, {used:.1f} processor s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
