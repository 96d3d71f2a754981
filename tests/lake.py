"""A lakehouse as most tests need it: what comes to its streams, what runs on it, and what its tables hold then."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

import keyfold
from keyfold import Lakehouse, Stream
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.job_run import RunSummary, run_job
from keyfold.lakehouse.reading import scan_table
from keyfold.runners import Runners
from tests.shop import START, clicks

Row = tuple[Any, ...]

LOCAL = Runners("local")
"""Runners of this process, without Spark."""


class Lake:
    """A lakehouse, and the session in which its jobs run: without Spark, unless another is given.

    Example:
        lake = Lake(tmp_path)
        lake.click(("ann", 1), ("bob", 2))
        lake.run(windows())
        assert lake.rows("windows") == []
    """

    def __init__(self, place: Lakehouse | Path | str, session: Any = None) -> None:
        self.lakehouse = place if isinstance(place, Lakehouse) else Lakehouse(place)
        self.session = session or Runners("local")
        self.landed = 0

    def put(self, events: pl.DataFrame, stream: str = "clicks", **options: Any) -> None:
        """Append to a stream's event table, in one file, as another program does; options as of `write_delta`."""
        table = self.lakehouse.events(stream)
        table.parent.mkdir(parents=True, exist_ok=True)
        events.write_delta(str(table), mode="append", **options)

    def click(self, *rows: tuple[str | None, float]) -> None:
        """Append toy clicks of (user, minutes after START)."""
        self.put(clicks(*rows))

    def land(self, stream: Stream, events: pl.DataFrame) -> None:
        """Have events land in a Parquet file of their own, and ingest it."""
        landing = self.lakehouse.landing(stream.name)
        landing.mkdir(parents=True, exist_ok=True)
        self.landed += 1
        events.write_parquet(str(landing / f"{self.landed:04}.parquet"))
        keyfold.ingest(self.lakehouse, stream, runners=self.session)

    def run(self, job: keyfold.KeyedJob, *mode: Any, **options: Any) -> RunSummary:
        return run_job(self.lakehouse, job, *mode, **options, runners=self.session)

    def rows(self, table: str, *columns: str) -> list[Row]:
        """The rows of a table in one order, in all of its columns or in some."""
        found = scan_table(self.lakehouse.table(table)).collect()
        return sorted(found.select(columns or found.columns).rows(), key=_in_order)

    def live(self, job: str) -> Generation:
        """A job's live generation, which is there."""
        found = live_generation(self.lakehouse, job)
        assert found is not None, f"job {job} has no live generation"
        return found

    def done(self, job: str) -> KeyedDone:
        """The last batch of a job that is done, which is there."""
        found = self.live(job).journal.last_done()
        assert found is not None, f"job {job} has done no batch"
        return found


def minutes(count: float) -> datetime:
    """The time so many minutes after START."""
    return START + timedelta(minutes=count)


def _in_order(row: Row) -> list[tuple[bool, Any]]:
    """So that NULL comes before any value."""
    return [(value is not None, value) for value in row]
