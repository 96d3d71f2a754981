"""`keyfold simulate`: write simulated events to files."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from keyfold.cli.options import AsJson
from keyfold.cli.terminal import failures, report
from keyfold.lakehouse.files import files_below, write_whole
from keyfold.storage.place import path_below, to_place
from keyfold.storage.reachable import check_reachable
from spark_jobs.simulation import SIMULATORS
from spark_jobs.simulation import simulate as simulate_stream

_SIZES = ", ".join(f"{one.counted} ({name}, else {one.size:,})" for name, one in SIMULATORS.items())


def simulate(
    to: Annotated[str, typer.Option("--to", help="Folder for the files, or s3a://BUCKET/FOLDER.")],
    stream: Annotated[str, typer.Option("--stream", help=f"One of: {', '.join(SIMULATORS)}.")] = "ride_points",
    size: Annotated[int | None, typer.Option("--size", min=1, help=f"How many {_SIZES}.")] = None,
    rides: Annotated[int | None, typer.Option("--rides", min=1, help="The same as --size, of ride_points.")] = None,
    hours: Annotated[float | None, typer.Option("--hours", help="Span of event time.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Same seed and start, same bytes.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write files of simulated events: out of order, duplicated, late, malformed, incomplete."""
    if stream not in SIMULATORS:
        raise typer.BadParameter(f"no stream {stream!r} to simulate; streams there: {', '.join(SIMULATORS)}")
    if rides is not None and (stream != "ride_points" or size is not None):
        raise typer.BadParameter("--rides means --size of ride_points: give --size")
    with failures():
        place = to_place(to)
        with tempfile.TemporaryDirectory(prefix="keyfold-") as folder:
            check_reachable(place)
            here = place if isinstance(place, Path) else Path(folder)
            made = simulate_stream(stream, here, size=rides if size is None else size, seed=seed, hours=hours)
            if here != place:
                for file in files_below(here):
                    write_whole(place / str(path_below(file.path, here)), file.path.read_bytes())
        report(asdict(made), as_json, f"{made.rows:,} rows of {made.size:,} {SIMULATORS[stream].counted} in {to}")
