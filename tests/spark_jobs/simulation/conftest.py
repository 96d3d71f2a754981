"""Two calls into one folder for each stream, as a demo makes them, read back by the plain reader."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.simulation import SimulationSummary, simulate
from tests.spark_jobs.simulation.reading import Found, read

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Call:
    """One call: what it said, and what it wrote."""

    landing: Path
    paths: tuple[Path, ...]
    summary: Any
    found: Found


@pytest.fixture(scope="session")
def calls(tmp_path_factory) -> Callable[[str], tuple[Call, Call]]:
    made: dict[str, tuple[Call, Call]] = {}

    def of(stream: str) -> tuple[Call, Call]:
        if stream not in made:
            landing = tmp_path_factory.mktemp(stream)
            first = _call(stream, landing, simulate(stream, landing, seed=7, start=START), ())
            further = simulate(stream, landing, seed=8, start=first.summary.end)
            made[stream] = first, _call(stream, landing, further, first.paths)
        return made[stream]

    return of


def _call(stream: str, landing: Path, summary: SimulationSummary, before: tuple[Path, ...]) -> Call:
    paths = tuple(sorted({path for path in landing.rglob("*") if path.is_file()} - set(before)))
    return Call(landing, paths, summary, read(stream, landing, paths))
