"""`keyfold verify JOB`: see whether a job's answer depends on how its events come."""

import random
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from keyfold.cli.known_names import require_known
from keyfold.cli.options import DEFAULT_HOME, Home
from keyfold.cli.terminal import failures
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import read_table
from keyfold.project import project_jobs
from keyfold.testing.verifying import verify as find_counterexample


def verify(
    job: Annotated[str, typer.Argument(help=f"One of: {', '.join(project_jobs())}.")],
    rounds: Annotated[int, typer.Option(min=1, help="How often events are drawn.")] = 50,
    seed: Annotated[int, typer.Option(help="Of the events that are drawn.")] = 0,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw events from the tables of the lakehouse, and do not make them.")
    ] = False,
    write: Annotated[Path, typer.Option(help="File for a test of the counterexample.")] = Path(
        "test_counterexample.py"
    ),
    home: Home = DEFAULT_HOME,
) -> None:
    """Play events to a job in any order, cut and in files; the exit code is 1 if it gives different answers."""
    require_known("job", job, project_jobs())
    with failures():
        declared = project_jobs()[job]
        rows = (
            {name: _rows(Lakehouse(home), one.table, seed) for name, one in declared.inputs.items()} if sample else {}
        )
        found = find_counterexample(declared, rows, rounds=rounds, seed=seed)
    if found is None:
        typer.echo(f"{job}: one answer, whatever the order, the slices and the files, in {rounds} rounds")
        return
    write.write_text(found.as_test(), encoding="utf-8")
    events = sum(len(rows) for run in found.runs for rows in run.values())
    typer.echo(
        f"{job}: the answer differs when the same events come {found.way}; {write} has {events} of them, and fails until "
        f"the job gives one answer:\n{found.difference}",
        err=True,
    )
    raise typer.Exit(1)


def _rows(lakehouse: Lakehouse, table: str, seed: int) -> pl.DataFrame:
    rows = read_table(lakehouse, table).head(100_000).collect()
    return rows.sample(min(500, rows.height), seed=random.Random(seed).randrange(2**31))
