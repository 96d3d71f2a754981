"""`keyfold state read`, `list` and `stats`: read the rows of a state, list states, and print their statistics."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from keyfold.cli.options import known
from keyfold.cli.terminal import print_rows, report
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.project import jobs_if_any
from keyfold.state.reading.export import write_state
from keyfold.state.reading.reader import jobs_with_state, read_state
from keyfold.state.reading.state_rows import chosen_columns
from keyfold.state.reading.state_statistics import list_state, state_statistics
from keyfold.state.rows.lines import json_lines

Generation = Annotated[
    str | None, typer.Option("--generation", metavar="G", help="A generation or a branch [default: the live one].")
]
Batch = Annotated[int | None, typer.Option("--batch", min=0, help="A retained batch [default: the last].")]
To = Annotated[str | None, typer.Option(metavar="PATH", help="Write Parquet to this folder or URL, and print nothing.")]


def read(
    job: Annotated[str, typer.Argument(help="The job whose state to read.")],
    lakehouse: Lakehouse,
    batch: Batch = None,
    generation: Generation = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="K", help="Only this key; a JSON object if it has several columns. May be repeated."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="[NAME=]COLUMN,…", help="Only the key and these columns, also under other names [default: all]."
        ),
    ] = None,
    to: To = None,
) -> None:
    """Read the rows of a job's state: print them as lines of JSON, or write them to Parquet files."""
    declared = known("job", job, all_jobs(lakehouse))
    rows = read_state(lakehouse, declared, generation=generation, batch=batch, keys=key or [])
    rows = rows if columns is None else chosen_columns(rows, columns)
    if to is not None:
        report(write_state(rows, to))
        return
    for frame in rows.frames():
        sys.stdout.writelines(f"{line}\n" for line in json_lines(frame))


def list_(lakehouse: Lakehouse, job: Annotated[str | None, typer.Argument(help="Only this job.")] = None) -> None:
    """List jobs with their generations, branches and retained batches."""
    names = [job] if job else jobs_with_state(lakehouse)
    rows = []
    for generation in (generation for name in names for generation in list_state(lakehouse, name)):
        ends = generation.retained[:: max(len(generation.retained) - 1, 1)]
        rows.append(asdict(generation) | {"batches": " to ".join(map(str, ends))})
    columns = ("job", "generation", "role", "batches", "open_events", "bytes", "key", "watermark")
    print_rows("generations", rows, columns)


def stats(
    job: Annotated[str, typer.Argument(help="The job.")],
    lakehouse: Lakehouse,
    batch: Batch = None,
    generation: Generation = None,
) -> None:
    """Print statistics of a job's state: rows, keys, bytes, skew over key groups, timers."""
    rows = read_state(lakehouse, known("job", job, all_jobs(lakehouse)), generation=generation, batch=batch)
    report(state_statistics(lakehouse, rows))


def all_jobs(lakehouse: Lakehouse) -> dict[str, KeyedJob | str]:
    """Return the jobs of the project, and the names of those that the lakehouse has state of and the project no longer has."""
    return {**{name: name for name in jobs_with_state(lakehouse)}, **jobs_if_any()}
