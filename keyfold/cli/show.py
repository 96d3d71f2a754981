"""`keyfold show`: print the rows of a table."""

import sys
from typing import Annotated

import typer

from keyfold.cli.catalogue import declared_tables
from keyfold.cli.known_names import require_known
from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.rows import Format, print_rows
from keyfold.cli.terminal import failures, report
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import count_rows

_DEFAULT_TABLE_ROWS = 20


def show(
    table: Annotated[str, typer.Argument(help="events.STREAM, quarantine.STREAM, a job's table, late.JOB, …")],
    home: Home = DEFAULT_HOME,
    style: Annotated[Format, typer.Option("--format", help="How to print the rows.")] = "table",
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most this many rows [default: 20 with --format table, else all].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the rows of a table; `--json` prints its name, path and row count instead."""
    with failures():
        lakehouse = Lakehouse(home)
        known = declared_tables()
        if table not in known:
            require_known("table", table, [*known, *(name for name in lakehouse.tables() if name not in known)])
        path = lakehouse.table(table)
        if as_json:
            report({"table": table, "path": str(path), "rows": count_rows(path)}, as_json, "")
            return
        print_rows(path, style, _DEFAULT_TABLE_ROWS if limit is None and style == "table" else limit, sys.stdout)
