"""`keyfold show`, `jobs` and `streams`: print a table's rows, and list what the project declares, without Spark."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, TextIO

import polars as pl
import pyarrow as pa
import typer
from deltalake import DeltaTable

from keyfold.cli.options import look_up, one_of
from keyfold.cli.terminal import AS_JSON, cell, print_rows, print_table, visible
from keyfold.errors import InvalidData, NotFound, first_line
from keyfold.keyed.job.parameters import describe_parameters
from keyfold.keyed.rows.codec import empty
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import count_rows, read_batches, readable
from keyfold.project import project_if_any, project_jobs, project_streams
from keyfold.runs.jobs import own_parameters
from keyfold.state.rows.keys import wanted_keys
from keyfold.state.rows.sql_expressions import sql_expression
from keyfold.storage.place import Place

_DEFAULT_TABLE_ROWS = 20
_FIRST = ("reason", "file", "line")
_LONGEST_LINE = 60


def show(
    lakehouse: Lakehouse,
    table: Annotated[
        str | None,
        typer.Argument(help="events.STREAM, quarantine.STREAM, a job's table, late.JOB, … [default: list them]"),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most this many rows [default: 20, with --json all].")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION", help='Only rows for which this is true: SQL over their columns, as in "clicks > 3".'
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Only these columns, separated by commas.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Only rows of this key of the job, or of events with this id; a JSON object if it has several columns. May be repeated.",
        ),
    ] = None,
) -> None:
    """Print the rows of a table, or list the tables with their writers and row counts; with `--json`, a row is a line of JSON."""
    declared = declared_tables()
    if table is None:
        if options := [name for name, value in (("--where", where), ("--columns", columns), ("--key", key)) if value]:
            raise typer.BadParameter(f"{options[0]} needs a table: give its name, as `keyfold show` lists it")
        _list_tables(lakehouse, declared)
        return
    if table not in declared:
        look_up("table", table, {**declared, **lakehouse.tables()})
    path = lakehouse.table(table)
    chosen = ChosenRows(
        where, tuple(columns.split(",")) if columns else None, tuple(key or ()), _key_of(table) if key else ()
    )
    show_table(path, limit, sys.stdout, chosen)


@dataclass(frozen=True)
class ChosenRows:
    """Which rows and columns of a table are shown.

    Attributes:
        where: a condition, as SQL over the columns; None for all rows.
        columns: the columns, in this order; None for all.
        keys: keys as text; none for all rows.
        key: the columns of a key.
    """

    where: str | None = None
    columns: tuple[str, ...] | None = None
    keys: tuple[str, ...] = ()
    key: tuple[str, ...] = ()

    def rows_in(self, schema: pa.Schema) -> Callable[[pl.DataFrame], pl.DataFrame]:
        """Return a function that keeps the rows of a frame that are shown.

        Raises:
            InvalidData: the condition is none, or a column or key does not fit the table.
        """
        if strangers := [name for name in (*(self.columns or ()), *self.key) if name not in schema.names]:
            raise InvalidData(f"the table has no column {strangers[0]}; its columns: {', '.join(schema.names)}")
        keys = wanted_keys(self.keys, self.key, schema)
        condition = pl.lit(value=True)
        if self.where is not None:
            try:
                condition = sql_expression("--where", self.where)
                kind = empty(schema).select(condition).dtypes[0]
            except pl.exceptions.PolarsError as error:
                raise InvalidData(
                    f"--where {self.where}: {first_line(error)}; the columns are {', '.join(schema.names)}; a text is in single quotes"
                ) from error
            if kind != pl.Boolean:
                raise InvalidData(f'--where {self.where} is {kind}, and no condition, such as "clicks > 3"')
        return lambda frame: (keys.of(frame) if keys else frame).filter(condition)


def _key_of(table: str) -> tuple[str, ...]:
    """Return the columns by which `--key` names rows: a job's key, or the id of a stream's events.

    Raises:
        NotFound: the table has none.
    """
    project = project_if_any()
    jobs = project.jobs.values() if project else ()
    streams = project.streams.values() if project else ()
    of_job = next((job.key for job in jobs if table in {declared.name for declared in job.tables}), ())
    of_stream = next((stream.event_id for stream in streams if table == f"events.{stream.name}"), ())
    if key := tuple(of_job or of_stream):
        return key
    raise NotFound(
        f"--key: {table} is of no job of the project, nor of a stream with event_id; choose rows with --where"
    )


def show_table(path: Place, limit: int | None, to: TextIO, chosen: ChosenRows | None = None) -> None:
    """Write a table's rows: for programs as JSON, an object a line; for people with the table's row count."""
    chosen = chosen or ChosenRows()
    schema = pa.schema(DeltaTable(str(path)).schema().to_arrow())  # type: ignore[arg-type]
    condition, names = chosen.rows_in(schema), schema.names
    if AS_JSON.get():
        for frame in read_batches(path, limit, condition=condition):
            text = readable(frame.select(chosen.columns or names)).write_ndjson()
            # A terminal would obey control characters; a file or a pipe gets them unchanged.
            to.write(visible(text, keep="\n") if to.isatty() else text)
        return
    if set(_FIRST) < set(names):
        # A quarantine: why and where before what, which may be long.
        names = [*_FIRST, *(name for name in names if name not in (*_FIRST, "raw")), "raw"]
    names = list(chosen.columns or names)
    frames = read_batches(path, _DEFAULT_TABLE_ROWS if limit is None else limit, condition=condition)
    rows = [list(map(cell, row)) for frame in frames for row in _cut(readable(frame.select(names))).iter_rows()]
    print_table(names, rows, to)
    to.write(f"{len(rows)} of {count_rows(path)} rows\n")


def _cut(rows: pl.DataFrame) -> pl.DataFrame:
    """Cut the lines of a quarantine, which `--json` prints whole."""
    if rows.columns[: len(_FIRST)] != list(_FIRST):
        return rows
    raw = pl.col("raw")
    return rows.with_columns(
        pl.when(raw.str.len_chars() > _LONGEST_LINE).then(raw.str.head(_LONGEST_LINE) + "…").otherwise(raw).alias("raw")
    )


def jobs(
    lakehouse: Lakehouse,
    job: Annotated[str | None, typer.Argument(help=f"{one_of('jobs')} [default: list them]")] = None,
) -> None:
    """List the jobs with their streams, keys and descriptions; of one job, its parameters with types and defaults.

    `keyfold run JOB --param NAME=VALUE` sets one. Values of the live generation that differ from the defaults, such as promoted ones, are
    listed as `live`.
    """
    if job is not None:
        _list_parameters(lakehouse, job)
        return
    rows = [
        {
            "job": name,
            "stream": ", ".join(stream.name for stream in declared.streams),
            "key": list(declared.key),
            "tables": [table.name for table in declared.tables],
            "description": declared.description,
        }
        for name, declared in project_jobs().items()
    ]
    print_rows("jobs", rows, ("job", "stream", "key", "description"))


def streams() -> None:
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
    print_rows("streams", rows, ("stream", "event_time", "event_id", "description"))


def _list_tables(lakehouse: Lakehouse, declared: Mapping[str, str]) -> None:
    existing = lakehouse.tables()
    rows = [
        {
            "table": name,
            "written_by": declared.get(name),
            "rows": count_rows(existing[name]) if name in existing else None,
            "path": str(existing[name]) if name in existing else None,
        }
        for name in {**declared, **existing}
    ]
    print_rows("tables", rows, ("table", "written_by", "rows"))


def _list_parameters(lakehouse: Lakehouse, job: str) -> None:
    declared = look_up("job", job, project_jobs())
    live = {name: value for name, (value, _) in own_parameters(lakehouse, declared).items()}
    described = describe_parameters(declared.parameter_fields)
    rows = [parameter._asdict() | {"live": live.get(parameter.name)} for parameter in described]
    columns = ("name", "type", "default", *(["live"] if live else []), "description")
    print_rows("parameters", rows, columns, job=job)


def declared_tables() -> dict[str, str]:
    """Return the stream or job that writes each table of the project, if there is one, by the table's name."""
    if (project := project_if_any()) is None:
        return {}
    of_streams = {
        f"{kind}.{stream}": f"stream {stream}" for stream in project.streams for kind in ("events", "quarantine")
    }
    return of_streams | {table.name: f"job {job.name}" for job in project.jobs.values() for table in job.tables}
