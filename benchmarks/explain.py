"""Measure `keyfold explain` on a table of many events: of a whole key, of one row, and of a key that never came.

`python -m benchmarks.explain [EVENTS] [ROUNDS]`: events of 30 days in files of 2,500,000, in order of time. A card pays all month, a
trip lasts ten minutes; so the times in a trip's row bound the search, and those of a card do not. Processor seconds count, since the
machine may be shared.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
import pyarrow as pa

import keyfold
from benchmarks.runs import print_table
from benchmarks.usage import processor_seconds
from keyfold import INGESTED_AT, Input, KeyedJob, Lakehouse, Stream, required
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.operators import count, sessions, totals
from keyfold.operators import sum as sum_of
from keyfold.runners import Runners

START, DAYS = datetime(2026, 1, 1, tzinfo=UTC), 30
TIME = pa.timestamp("us", tz="UTC")
EVENTS_A_CARD, EVENTS_A_TRIP = 1_000, 50
_ROWS_A_FILE = 2_500_000
STREAM = Stream(
    "payments",
    [
        required("card", pa.string(), "Who"),
        required("trip", pa.string(), "On which trip"),
        required("at", TIME, "When"),
        required("cents", pa.int64(), "How much"),
    ],
    event_time="at",
)


def filled(lakehouse: Lakehouse, events: int) -> None:
    """Make the event table."""
    table, chance = lakehouse.events(STREAM.name), np.random.default_rng(1)
    create_table(table, STREAM.event_schema)
    step = timedelta(days=DAYS) / events
    for batch, first in enumerate(range(0, events, _ROWS_A_FILE)):
        numbers = np.arange(first, min(events, first + _ROWS_A_FILE))
        # Four hundred trips go on at a time.
        trips = (numbers // (400 * EVENTS_A_TRIP)) * 400 + numbers % 400
        frame = pl.DataFrame(
            {
                "card": _names("card", chance.integers(0, events // EVENTS_A_CARD, numbers.size)),
                "trip": _names("trip", trips),
                "at": pl.Series(numbers * (step / timedelta(microseconds=1))).cast(pl.Int64).cast(pl.Duration("us"))
                + START,
                "cents": numbers % 1_000,
            }
        ).with_columns(pl.lit(START + timedelta(days=DAYS, seconds=batch)).alias(INGESTED_AT))
        append_files(
            table,
            [write_data_file(frame.select(STREAM.event_schema.names), table, STREAM.event_schema)],
            "filled",
            batch,
        )


def _names(kind: str, numbers: np.ndarray) -> pl.Series:
    return pl.Series(kind, numbers).hash(1).cast(pl.String) + "-" + kind


def jobs() -> list[KeyedJob]:
    """A job by card, whose rows are of all time, and one by trip."""
    by_card = totals(
        "by_card", Input(STREAM, columns=("card", "at", "cents")), {"n": count(), "cents": sum_of("cents")}, key="card"
    )
    source = Input(STREAM, columns=("trip", "at", "cents"))
    return [by_card, sessions("trips", source, {"n": count(), "cents": sum_of("cents")}, key="trip", gap="30m")]


def main() -> None:
    events, rounds = (int(argument) for argument in [*sys.argv[1:], "10000000", "5"][:2])
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as folder:
        lakehouse, (by_card, trips) = Lakehouse(Path(folder)), jobs()
        filled(lakehouse, events)
        for job in (by_card, trips):
            keyfold.run(lakehouse, job, runners=Runners("local"))
        cards = keyfold.read_table(lakehouse, "by_card").head(rounds).collect()["card"]
        # Its text is between others, so that statistics of files do not exclude it.
        (never,) = _names("trip", np.array([-1]))
        ended = keyfold.read_table(lakehouse, "trips").head(rounds).collect()["trip"]
        rows = [
            _measured(
                "a card of all the month", [lambda key=key: _explained(lakehouse, by_card, key) for key in cards]
            ),
            _measured("a trip", [lambda key=key: _explained(lakehouse, trips, key) for key in ended]),
            _measured(
                "one row of a trip (--row 1)",
                [lambda key=key: _explained(lakehouse, trips, key, row=1) for key in ended],
            ),
            _measured("a trip that never came", [lambda: _explained(lakehouse, trips, never)] * rounds),
        ]
        print_table(
            f"keyfold explain, {events:,} events of {DAYS} days", ["explained", "events", "processor s", "wall s"], rows
        )


def _explained(lakehouse: Lakehouse, job: KeyedJob, key: str, row: int | None = None) -> int:
    explanation = keyfold.explain(lakehouse, job.name, key, row=row, jobs=[job])
    assert explanation.is_equal, explanation  # noqa: S101 - what is not right is not measured
    return len(explanation.events)


def _measured(name: str, calls: list[Callable[[], int]]) -> list[str]:
    used, walls, events = list[float](), list[float](), list[int]()
    for call in calls:
        before, began = processor_seconds(os.getpid()), time.monotonic()
        events.append(call())
        used.append(processor_seconds(os.getpid()) - before)
        walls.append(time.monotonic() - began)
    return [name, f"{median(events):,.0f}", f"{median(used):.2f}", f"{median(walls):.2f}"]


if __name__ == "__main__":
    main()
