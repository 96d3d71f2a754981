"""Open the source of state as a lazy frame, and convert its values exactly: a table of the lakehouse, or Delta, Parquet, CSV or JSON lines at any path."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
from deltalake.exceptions import DeltaError
from polars.datatypes import DataTypeClass

from keyfold.errors import InvalidData, NotFound
from keyfold.exact_cast import exact_cast
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.foreign import check_files_are_inside, check_no_link_leads_out, finer_time, int96_columns
from keyfold.lakehouse.reading import scan_parquet
from keyfold.state.rows.lines import is_keyed, keyed_rows
from keyfold.storage.place import Place, to_place

ENDINGS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "jsonl",
}
"""Formats by the suffix of a file; Spark's text writer names lines of JSON `.txt`."""


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Name the source in errors of reading it, which lazy frames raise when they are collected.

    Raises:
        KeyfoldError: a file is damaged, missing, or of another format.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, DeltaError, pa.ArrowException, OSError) as error:
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise InvalidData(f"{source} cannot be read: {why[0]}; nothing was changed") from error


def open_source(lakehouse: Lakehouse, source: str, key: Sequence[str] = ()) -> pl.LazyFrame:
    """Open a source as a lazy frame.

    Args:
        lakehouse: the lakehouse, whose tables can be named.
        source: name of a table as `keyfold show` takes it, or path of a Delta table, a file, or a folder of files.
        key: columns of the key, for lines of JSON that are of a key each (`rows.lines.keyed_rows`); without them, such lines are not recognised.

    Raises:
        KeyfoldError: there is no such table or path, a line has another format than the first, or the format of the files is
            unknown.
    """
    if source in (tables := lakehouse.tables()):
        return _delta(tables[source])
    path = to_place(source).expanduser()
    if not path.exists():
        there = ", ".join(tables) or "none yet"
        raise NotFound(f"{source} is neither a path nor a table of {lakehouse.home}; tables there: {there}")
    if path.is_dir() and is_table(path):
        return _delta(path)
    files = sorted(file for file in path.rglob("*") if file.suffix in ENDINGS) if path.is_dir() else [path]
    if path.is_dir():
        check_no_link_leads_out(path, files)
    kinds = {ENDINGS.get(file.suffix) for file in files}
    if len(kinds) != 1 or None in kinds:
        raise InvalidData(
            f"{path} holds no files of one kind that can be read; give a Delta table, or files that end in "
            f"{', '.join(ENDINGS)}, all of one kind"
        )
    kind = kinds.pop()
    if kind == "jsonl" and key and is_keyed(_first_line(files)):
        try:
            return keyed_rows({str(file): _lines(file) for file in files}, key)
        except ValueError as error:
            raise InvalidData(f"{error}; nothing was changed") from None
    return _scan(kind, files)


def _first_line(files: Sequence[Place]) -> str:
    for file in files:
        with file.open_for_reading() as opened:
            for line in opened:
                if line.strip():
                    return line.decode(errors="replace")
    return ""


def _lines(file: Place) -> pl.Series:
    return pl.Series(file.read_text(encoding="utf-8").split("\n"), dtype=pl.String)


def _delta(path: Place) -> pl.LazyFrame:
    """Scan a Delta table with Delta's reader: partition values are only in the log, and files may lack columns."""
    return pl.scan_pyarrow_dataset(check_files_are_inside(path).to_pyarrow_dataset(), allow_pyarrow_filter=False)


def _scan_parquet(files: list[Place]) -> pl.LazyFrame:
    """Scan Parquet files with 96-bit times in microseconds: as nanoseconds, Polars limits the years of times."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes 0.1 s

    wide = set[str]()
    for file in files:
        with file.open_for_reading() as opened:
            metadata = pq.read_metadata(opened)
            wide.update(int96_columns(metadata))
            if unit := finer_time(opened, metadata):
                raise InvalidData(f"{file} has a time that is finer than a microsecond: {unit}; nothing was changed")
    rows = scan_parquet(files)
    if not wide:
        return rows
    kinds = rows.collect_schema()
    return scan_parquet(
        files, schema={name: _in_micros(kinds[name]) if name in wide else kinds[name] for name in kinds}
    )


def _in_micros(kind: Any) -> Any:
    if isinstance(kind, pl.Struct):
        return pl.Struct({field.name: _in_micros(field.dtype) for field in kind.fields})
    if isinstance(kind, pl.List):
        return pl.List(_in_micros(kind.inner))
    return pl.Datetime("us", kind.time_zone) if isinstance(kind, pl.Datetime) else kind


def _scan(kind: str | None, files: list[Place]) -> pl.LazyFrame:
    if kind == "parquet":
        return _scan_parquet(files)
    # Files in a bucket are read by their URLs, with credentials from the environment.
    texts: Any = [file.as_source() for file in files]
    options: Any = {"credential_provider": None}
    if kind == "csv":
        # As text: the columns of the state decide which values are numbers; 007 may be text.
        return pl.scan_csv(texts, infer_schema=False, **options)
    # Infer types from all lines: a column may be empty in the first ones.
    return pl.scan_ndjson(texts, infer_schema_length=None, **options)


def fitted(value: pl.Expr, have: pl.DataType, wanted: pl.DataType) -> pl.Expr:
    """Return an expression that converts a value; NULL if it does not fit (see `exact_cast`).

    A list or struct fits if all of its values do. Missing fields of a struct become NULL; a field that the wanted type does not
    have must be NULL.

    Args:
        value: an expression.
        have: its type.
        wanted: the type of a column of state.
    """
    if have == wanted and not _holds_times(have):
        return value
    if isinstance(have, pl.Array):
        value, have = value.arr.to_list(), pl.List(have.inner)
    if isinstance(have, pl.List) and isinstance(wanted, pl.List):
        return _fitted_list(value, _kind(have.inner), _kind(wanted.inner))
    if isinstance(have, pl.Struct) and isinstance(wanted, pl.Struct):
        return _fitted_struct(value, have, wanted)
    return value.map_batches(partial(exact_cast, wanted=wanted), return_dtype=wanted, is_elementwise=True)


def _holds_times(kind: pl.DataType) -> bool:
    """Whether values of a type may be times outside of the calendar, which fit no column."""
    if isinstance(kind, pl.List | pl.Array):
        return _holds_times(_kind(kind.inner))
    if isinstance(kind, pl.Struct):
        return any(_holds_times(_kind(field.dtype)) for field in kind.fields)
    return isinstance(kind, pl.Datetime)


def _fitted_list(value: pl.Expr, have: pl.DataType, wanted: pl.DataType) -> pl.Expr:
    fits = value.list.eval(fitted(pl.element(), have, wanted))
    # An element that does not fit has become NULL. Then the list has fewer values than before, and does not fit either.
    return pl.when(_known(fits) == _known(value)).then(fits)


def _known(values: pl.Expr) -> pl.Expr:
    return values.list.drop_nulls().list.len()


def _fitted_struct(value: pl.Expr, have: pl.Struct, wanted: pl.Struct) -> pl.Expr:
    kinds = {field.name: _kind(field.dtype) for field in have.fields}
    columns, faults = [], []
    for field in wanted.fields:
        kind = _kind(field.dtype)
        if field.name in kinds:
            part = value.struct.field(field.name)
            fits = fitted(part, kinds.pop(field.name), kind)
            faults.append(fits.is_null() & part.is_not_null())
        else:
            fits = pl.lit(None, kind)
        columns.append(fits.alias(field.name))
    faults += [value.struct.field(name).is_not_null() for name in kinds]
    # A NULL struct stays NULL: `pl.struct` alone would make a struct of NULLs of it.
    return pl.when(value.is_not_null(), *(~fault for fault in faults)).then(pl.struct(columns))


def _kind(kind: pl.DataType | DataTypeClass) -> pl.DataType:
    return kind() if isinstance(kind, type) else kind
