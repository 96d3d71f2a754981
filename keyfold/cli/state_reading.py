"""`keyfold state read`, `list` and `stats`: read the rows of a state, list states, and print their statistics."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from keyfold.cli.options import look_up
from keyfold.cli.terminal import print_rows, report
from keyfold.errors import KeyfoldError
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.project import jobs_if_any
from keyfold.state.reading.export import write_state
from keyfold.state.reading.reader import jobs_with_state, read_state
from keyfold.state.reading.state_rows import StateRows, chosen_columns
from keyfold.state.reading.state_statistics import list_state, state_statistics
from keyfold.state.rows.lines import json_lines

LIVE = "live"
FORMS = "a batch (17), a generation or branch (generation-0001), or both (generation-0001:17)"

State = Annotated[str, typer.Argument(help=f"The state: {FORMS}.")]
To = Annotated[str | None, typer.Option(metavar="PATH", help="Write Parquet to this folder or URL, and print nothing.")]


def read(
    job: Annotated[str, typer.Argument(help="The job whose state to read.")],
    lakehouse: Lakehouse,
    state: State = LIVE,
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
    rows = state_rows(lakehouse, look_up("job", job, all_jobs(lakehouse)), state, key or ())
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
    state: State = LIVE,
) -> None:
    """Print statistics of a job's state: rows, keys, bytes, skew over key groups, timers."""
    report(state_statistics(lakehouse, state_rows(lakehouse, look_up("job", job, all_jobs(lakehouse)), state)))


def state_rows(lakehouse: Lakehouse, job: KeyedJob | str, state: str, keys: Iterable[str] = ()) -> StateRows:
    """Return the rows of a state that a command names (`FORMS`).

    Raises:
        KeyfoldError: it is not named so, or there is no such state or key.
    """
    name, colon, number = (LIVE, ":", state) if state.isdigit() else state.partition(":")
    if colon and not number.isdigit():
        raise KeyfoldError(f"{state}: {number!r} is not a batch number; write {FORMS}")
    batch = int(number) if colon else None
    return read_state(lakehouse, job, generation=None if name == LIVE else name, batch=batch, keys=keys)


def all_jobs(lakehouse: Lakehouse) -> dict[str, KeyedJob | str]:
    """Return the jobs of the project, and the names of those that the lakehouse has state of and the project no longer has."""
    return {**{name: name for name in jobs_with_state(lakehouse)}, **jobs_if_any()}
