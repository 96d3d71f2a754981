"""`keyfold show`, `jobs`, `streams`, `tables` and `params`: print a table's rows, and list what the project declares, without Spark."""

import sys
from typing import Annotated, TextIO

import typer
from deltalake import DeltaTable
from rich.console import Console
from rich.table import Column, Table

from keyfold.cli.options import DEFAULT_HOME, AsJson, Home, require_known
from keyfold.cli.terminal import cell, print_rows, visible
from keyfold.keyed.job.parameters import describe_parameters
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import count_rows, read_batches, readable
from keyfold.project import project_if_any, project_jobs, project_streams
from keyfold.runs.jobs import own_parameters
from keyfold.storage.place import Place

_WIDTH_OF_NO_TERMINAL = 100_000
_DEFAULT_TABLE_ROWS = 20


def show(
    table: Annotated[str, typer.Argument(help="events.STREAM, quarantine.STREAM, a job's table, late.JOB, …")],
    home: Home = DEFAULT_HOME,
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most this many rows [default: 20, with --json all].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each row as a line of JSON.")] = False,
) -> None:
    """Print the rows of a table."""
    lakehouse = Lakehouse(home)
    known = declared_tables()
    if table not in known:
        require_known("table", table, [*known, *(name for name in lakehouse.tables() if name not in known)])
    print_table(lakehouse.table(table), limit, sys.stdout, as_json=as_json)


def print_table(path: Place, limit: int | None, to: TextIO, *, as_json: bool) -> None:
    """Write a table's rows: for programs as JSON, an object a line; for people with the table's row count."""
    if as_json:
        for frame in read_batches(path, limit):
            text = readable(frame).write_ndjson()
            # A terminal would obey control characters; a file or a pipe gets them unchanged.
            to.write(visible(text, keep="\n") if to.isatty() else text)
        return
    fields = DeltaTable(str(path)).schema().fields
    shown = Table(*(Column(cell(field.name)) for field in fields), box=None, header_style="bold", pad_edge=False)
    for frame in read_batches(path, _DEFAULT_TABLE_ROWS if limit is None else limit):
        for row in readable(frame).iter_rows():
            shown.add_row(*map(cell, row))
    # A terminal wraps lines; a file or a pipe gets every value whole.
    console = Console(file=to, width=None if to.isatty() else _WIDTH_OF_NO_TERMINAL)
    console.print(shown)
    console.print(f"{shown.row_count} of {count_rows(path)} rows", style="dim")


_STREAM_TABLES = {"events": "events", "quarantine": "rejected rows"}


def jobs(as_json: AsJson = False) -> None:
    """List the jobs with their streams, keys and descriptions."""
    rows = [
        {
            "job": name,
            "stream": ", ".join(one.name for one in job.streams),
            "key": list(job.key),
            "tables": [table.name for table in job.tables],
            "description": job.description,
        }
        for name, job in project_jobs().items()
    ]
    print_rows("jobs", rows, ("job", "stream", "key", "description"), as_json=as_json)


def streams(as_json: AsJson = False) -> None:
    """List the streams with their event times, event ids and descriptions."""
    rows = [
        {
            "stream": stream.name,
            "event_time": stream.event_time,
            "event_id": list(stream.event_id),
            "columns": {field.name: str(field.type) for field in stream.schema},
            "description": stream.description,
        }
        for stream in project_streams().values()
    ]
    print_rows("streams", rows, ("stream", "event_time", "event_id", "description"), as_json=as_json)


def tables(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """List the tables with their writers and row counts."""
    existing = Lakehouse(home).tables()
    declared = declared_tables()
    rows = [
        {
            "table": name,
            "written_by": declared.get(name, ("", ""))[0],
            "contains": declared.get(name, ("", ""))[1],
            "rows": count_rows(existing[name]) if name in existing else None,
            "path": str(existing[name]) if name in existing else None,
        }
        for name in [*declared, *(name for name in existing if name not in declared)]
    ]
    print_rows("tables", rows, ("table", "written_by", "contains", "rows"), as_json=as_json)


def params(
    job: Annotated[str, typer.Argument(help=f"One of: {', '.join(project_jobs())}.")],
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """List the parameters of a job with types and defaults; `keyfold run JOB --param NAME=VALUE` sets one.

    Values of the live generation that differ from the defaults, such as promoted ones, are listed as `live`.
    """
    require_known("job", job, project_jobs())
    declared = project_jobs()[job]
    live = {name: now for name, (now, _) in own_parameters(Lakehouse(home), declared).items()}
    rows = [
        {
            "name": one.name,
            "type": one.type,
            "default": one.default,
            "live": live.get(one.name),
            "description": one.description,
        }
        for one in describe_parameters(declared.parameter_fields)
    ]
    columns = ("name", "type", "default", *(["live"] if live else []), "description")
    print_rows("parameters", rows, columns, as_json=as_json, job=job)


def declared_tables() -> dict[str, tuple[str, str]]:
    """Return the tables of the project, if any, by name, each with the stream or job that writes it and with what it contains."""
    if (project := project_if_any()) is None:
        return {}
    declared = {
        f"{kind}.{stream}": (f"stream {stream}", f"{contains} of {stream}")
        for stream in project.streams
        for kind, contains in _STREAM_TABLES.items()
    }
    for job in project.jobs.values():
        for table in job.tables:
            contains = job.description if table.name == job.name else table.description
            declared[table.name] = (f"job {job.name}", contains)
    return declared
