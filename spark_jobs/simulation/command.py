"""`keyfold simulate`: write simulated events to files."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from keyfold import Misconfigured
from keyfold.cli import report
from spark_jobs.simulation import SIMULATORS
from spark_jobs.simulation import simulate as simulate_stream

_SIZES = ", ".join(f"{one.counted} ({name}, else {one.size:,})" for name, one in SIMULATORS.items())


def simulate(
    to: Annotated[str, typer.Option("--to", help="Folder for the files.")],
    stream: Annotated[str, typer.Option("--stream", help=f"One of: {', '.join(SIMULATORS)}.")] = "ride_points",
    size: Annotated[int | None, typer.Option("--size", min=1, help=f"How many {_SIZES}.")] = None,
    hours: Annotated[float | None, typer.Option("--hours", help="Span of event time.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed and start give the same bytes.")] = 0,
) -> None:
    """Write files of simulated events: out of order, duplicated, late, malformed, incomplete."""
    if stream not in SIMULATORS:
        raise typer.BadParameter(f"no stream {stream!r} to simulate; streams there: {', '.join(SIMULATORS)}")
    if "://" in to:
        raise Misconfigured(f"--to {to}: simulated files are written to a folder; copy them from there to a bucket")
    made = simulate_stream(stream, Path(to), size=size, seed=seed, hours=hours)
    report(asdict(made), f"{made.rows:,} rows of {made.size:,} {SIMULATORS[stream].counted} in {to}")
