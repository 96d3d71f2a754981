"""`keyfold show`: print the rows of a table for people or for programs."""

import json
import sys
from typing import Annotated, Literal, TextIO

import polars as pl
import typer
from deltalake import DeltaTable
from rich.console import Console
from rich.table import Column, Table

from keyfold.cli.catalogue import declared_tables
from keyfold.cli.known_names import require_known
from keyfold.cli.options import DEFAULT_HOME, Home
from keyfold.cli.plain_text import cell, guarded, visible
from keyfold.cli.terminal import failures
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import count_rows, read_batches, readable
from keyfold.storage.place import Place

Format = Literal["table", "json", "csv"]

_WIDTH_OF_NO_TERMINAL = 100_000
_DEFAULT_TABLE_ROWS = 20


def show(
    table: Annotated[str, typer.Argument(help="events.STREAM, quarantine.STREAM, a job's table, late.JOB, …")],
    home: Home = DEFAULT_HOME,
    style: Annotated[
        Format, typer.Option("--format", help="How to print the rows; JSON is one object a line.")
    ] = "table",
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most this many rows [default: 20 with --format table, else all].")
    ] = None,
) -> None:
    """Print the rows of a table."""
    with failures():
        lakehouse = Lakehouse(home)
        known = declared_tables()
        if table not in known:
            require_known("table", table, [*known, *(name for name in lakehouse.tables() if name not in known)])
        path = lakehouse.table(table)
        print_rows(path, style, _DEFAULT_TABLE_ROWS if limit is None and style == "table" else limit, sys.stdout)


def print_rows(path: Place, style: Format, limit: int | None, to: TextIO) -> int:
    """Write a table's rows, and return how many were written.

    `json` writes one object a line. `csv` writes a header, and guards text that a spreadsheet would take for a formula.
    `table` is for people, and ends with the table's row count.
    """
    if style == "table":
        return _print_table(path, limit, to)
    written = 0
    for frame in read_batches(path, limit):
        shown = readable(frame)
        if style == "json":
            _write(to, shown.write_ndjson())
        else:
            _write(to, _flat(shown).write_csv(include_header=written == 0))
        written += shown.height
    if style == "csv" and not written:
        _write(to, ",".join(field.name for field in DeltaTable(str(path)).schema().fields) + "\n")
    return written


def _write(to: TextIO, text: str) -> None:
    # A terminal would obey control characters; a file or a pipe gets them unchanged.
    to.write(visible(text, keep="\n") if to.isatty() else text)


def _print_table(path: Place, limit: int | None, to: TextIO) -> int:
    fields = DeltaTable(str(path)).schema().fields
    there = count_rows(path)
    shown = Table(*(Column(cell(field.name)) for field in fields), box=None, header_style="bold", pad_edge=False)
    written = 0
    for frame in read_batches(path, limit):
        for row in readable(frame).iter_rows():
            shown.add_row(*map(cell, row))
        written += frame.height
    # A terminal wraps lines; a file or a pipe gets every value whole.
    console = Console(file=to, width=None if to.isatty() else _WIDTH_OF_NO_TERMINAL)
    console.print(shown)
    console.print(f"{written} of {there} rows", style="dim")
    return written


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Write lists and structs as JSON text, since CSV has no form for them, and guard text that looks like a formula."""
    as_text: dict[str, pl.Series] = {}
    for name, kind in frame.schema.items():
        values = frame[name].to_list() if kind.is_nested() or kind == pl.String else []
        if kind.is_nested():
            values = [None if value is None else json.dumps(value) for value in values]
        if values:
            as_text[name] = pl.Series(name, map(guarded, values), pl.String)
    return frame.with_columns(**as_text)
