"""Shared parts of benchmarks: a session with a folder, ride points in files, runs by turns, and tables of figures."""

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

import polars as pl
from rich.console import Console
from rich.table import Table

from benchmarks.usage import processor_seconds
from keyfold.runners import Runners
from keyfold.session import SparkSettings, build_session
from spark_jobs.simulation import ride_points_table

FILES, POINTS_A_RIDE = 16, 50
START = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def runners_and_folder(runner: Literal["spark", "local"] = "spark") -> Iterator[tuple[Runners, Path]]:
    """Start Spark by the environment's settings, if it is the runner, and create a temporary folder; both end with the context."""
    session = build_session(SparkSettings.from_environment()) if runner == "spark" else None
    try:
        with tempfile.TemporaryDirectory(prefix="keyfold-bench-", ignore_cleanup_errors=True) as folder:
            yield Runners(runner, session), Path(folder)
    finally:
        if session is not None:
            session.stop()


def ride_points(rows: int, seed: int = 1) -> pl.DataFrame:
    """Make points of rides of equal length, in order of time."""
    return ride_points_table(rows // POINTS_A_RIDE, POINTS_A_RIDE, seed=seed, start=START)


def ride_files(folder: Path, rows: int, seed: int = 1) -> Path:
    """Write ride points as NDJSON files into a new landing folder, and return the folder."""
    text = ride_points(rows, seed).with_columns(pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
    folder.mkdir(parents=True)
    for number, part in enumerate(text.iter_slices(-(-text.height // FILES))):
        part.write_ndjson(folder / f"{number:03d}.ndjson")
    return folder


@dataclass
class Figures:
    """Wall and processor seconds of a contestant's warm runs."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Seconds of the fastest warm run."""
        return min(self.seconds)


Name = TypeVar("Name")


def by_turns(contestants: Mapping[Name, Callable[[Path], object]], folder: Path, repeat: int) -> dict[Name, Figures]:
    """Run contestants in turn: once cold, then warm `repeat` times.

    Args:
        contestants: each gets an empty folder, which is deleted afterwards.
        folder: where these folders are made.
        repeat: number of warm runs.
    """
    figures = {name: Figures() for name in contestants}
    for turn in range(repeat + 1):
        for name, run in contestants.items():
            home = Path(tempfile.mkdtemp(dir=folder))
            # What earlier runs left must not be collected in this one's time.
            gc.collect()
            used, began = processor_seconds(os.getpid()), time.monotonic()
            run(home)
            took, used = time.monotonic() - began, processor_seconds(os.getpid()) - used
            shutil.rmtree(home)
            if turn:
                figures[name].seconds.append(took)
                figures[name].processor.append(used)
    return figures


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print figures; the first column is text."""
    table = Table(title=title)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    Console(width=170).print(table)


def listed(figures: Iterable[float], digits: int = 2) -> str:
    """Format figures for one cell."""
    return " ".join(f"{figure:.{digits}f}" for figure in figures)
