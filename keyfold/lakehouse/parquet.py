"""Parquet files wherever they lie: by Polars, and by pyarrow where row groups are looked at one by one."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
from polars.io.plugins import register_io_source

from keyfold.lakehouse.files import open_for_reading
from keyfold.storage.hdfs_path import HdfsPath
from keyfold.storage.object_path import ObjectPath
from keyfold.storage.place import Place
from keyfold.storage.remote_path import RemotePath


def scan_parquet(files: Place | Sequence[Place], **options: Any) -> pl.LazyFrame:
    """The rows of files, of which a query reads what it needs; options are those of `polars.scan_parquet`."""
    if opened := _opened_by_us(files):
        return _scan(opened, options.get("schema"))
    # No pattern: a folder's name may have characters that would be taken for one. And no credentials of Polars' own
    # finding: like all else here it goes by the environment.
    return pl.scan_parquet(_source(files), **{"glob": False, "credential_provider": None, **options})


def scan_rows(file: Place, offset: int, rows: int) -> pl.LazyFrame:
    """Some of the rows of a file, from one on; of the others as little is read as can be."""
    if opened := _opened_by_us(file):
        return _scan(opened, offset=offset, rows=rows)
    return scan_parquet(file).slice(offset, rows)


def read_parquet(file: Place, **options: Any) -> pl.DataFrame:
    """The rows of a file; options are those of `polars.read_parquet`."""
    if isinstance(file, HdfsPath):
        return pl.read_parquet(io.BytesIO(file.read_bytes()), **options)
    return pl.read_parquet(_source(file), **{"glob": False, "credential_provider": None, **options})


@contextmanager
def parquet_file(path: Place) -> Iterator[pq.ParquetFile]:
    """A file, to look at its footer and at single row groups."""
    with open_for_reading(path) as opened, pq.ParquetFile(opened) as file:
        yield file


def _source(files: Place | Sequence[Place]) -> Any:
    return _url(files) if isinstance(files, Path | RemotePath) else [_url(file) for file in files]


def _url(file: Place) -> Any:
    return file.url if isinstance(file, ObjectPath) else file


def _opened_by_us(files: Place | Sequence[Place]) -> list[HdfsPath]:
    """The files, where Polars does not speak what they are reached by."""
    some: Sequence[Place] = [files] if isinstance(files, Path | RemotePath) else files
    return [file for file in some if isinstance(file, HdfsPath)]


def _scan(
    files: Sequence[HdfsPath], schema: pl.Schema | None = None, offset: int = 0, rows: int | None = None
) -> pl.LazyFrame:
    """Rows by pyarrow, a row group at a time: of each the columns that a query asks for.

    Args:
        files: of one table.
        schema: of the rows; a column that a file lacks is NULL in its rows, and one that it has more is left out. That of
            the first file by default.
        offset: of the first row.
        rows: how many; all by default.
    """
    if schema is None:
        with parquet_file(files[0]) as file:
            schema = _frame(file.schema_arrow.empty_table()).schema
    kinds = schema

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = {name: kinds[name] for name in (kinds if columns is None else columns)}
        first, last = offset, None if rows is None else offset + rows
        if limit is not None and predicate is None:
            last = first + limit if last is None else min(last, first + limit)
        at = 0
        for path in files:
            with parquet_file(path) as file:
                for group in range(file.num_row_groups):
                    size = file.metadata.row_group(group).num_rows
                    if at + size > first and (last is None or at < last):
                        frame = _group(file, group, wanted)
                        start = max(first - at, 0)
                        frame = frame.slice(start, None if last is None else last - at - start)
                        yield frame if predicate is None else frame.filter(predicate)
                    at += size
            if last is not None and at >= last:
                return

    return register_io_source(read, schema=kinds, is_pure=True)


def _group(file: pq.ParquetFile, group: int, wanted: dict[str, pl.DataType]) -> pl.DataFrame:
    there = set(file.schema_arrow.names)
    found = file.read_row_group(group, columns=[name for name in wanted if name in there], use_threads=False)
    frame = _frame(found) if found.num_columns else pl.DataFrame(height=found.num_rows)
    return (
        frame.select(
            (_as(pl.col(name), frame.schema[name], kind) if name in there else pl.lit(None, kind)).alias(name)
            for name, kind in wanted.items()
        )
        if found.num_columns
        else frame.with_columns(pl.lit(None, kind).alias(name) for name, kind in wanted.items())
    )


def _as(column: pl.Expr, there: pl.DataType, wanted: pl.DataType) -> pl.Expr:
    """Times as the table has them: Spark writes nanoseconds by default, and no zone."""
    return column.cast(wanted) if there != wanted and isinstance(wanted, pl.Datetime) else column


def _frame(table: Any) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union of frame and series
    return frame
