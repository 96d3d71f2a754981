"""What state can be made of: a table of the lakehouse, or Delta, Parquet, CSV or JSON lines wherever they lie, as a lazy frame."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from spark_jobs.errors import KeyfoldError
from spark_jobs.lakehouse import Lakehouse, is_table
from spark_jobs.lakehouse.parquet import scan_parquet
from spark_jobs.lakehouse.reading import data_file_paths
from spark_jobs.objects.hdfs_path import HdfsPath
from spark_jobs.objects.object_path import ObjectPath
from spark_jobs.objects.place import Place, to_place

ENDINGS = {".parquet": "parquet", ".csv": "csv", ".json": "jsonl", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""Formats by how a file's name ends."""


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Say which source it is that cannot be read; lazy frames find that out wherever they are collected.

    Raises:
        KeyfoldError: a file of it is damaged, missing, or no file of its kind.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, DeltaError, OSError) as error:
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise KeyfoldError(f"{source} cannot be read: {why[0]}; nothing was changed") from error


def open_source(lakehouse: Lakehouse, source: str) -> pl.LazyFrame:
    """The rows of a source; nothing is read yet.

    Args:
        lakehouse: whose tables go by their names.
        source: a table's name as `keyfold show` takes it, or the path of a Delta table, a file, or a folder of files.

    Raises:
        KeyfoldError: there is no such table or path, or nothing says what its files are.
    """
    if source in (tables := lakehouse.tables()):
        return _delta(tables[source])
    path = to_place(source).expanduser()
    if not path.exists():
        there = ", ".join(tables) or "none yet"
        raise KeyfoldError(f"{source} is neither a path nor a table of {lakehouse.home}; tables there: {there}")
    if path.is_dir() and is_table(path):
        return _delta(path)
    files = sorted(file for file in path.rglob("*") if file.suffix in ENDINGS) if path.is_dir() else [path]
    kinds = {ENDINGS.get(file.suffix) for file in files}
    if len(kinds) != 1 or None in kinds:
        raise KeyfoldError(
            f"{path} holds no files of one kind that can be read; give a Delta table, or files that end in "
            f"{', '.join(ENDINGS)}, all of one kind"
        )
    return _scan(kinds.pop(), files)


def _delta(path: Place) -> pl.LazyFrame:
    delta = DeltaTable(str(path))
    files = data_file_paths(path)
    if not files:
        empty = pl.from_arrow(delta.to_pyarrow_table())
        assert isinstance(empty, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union of frame and series
        return empty.lazy()
    # A file that is older than a column lacks it.
    return scan_parquet(files, missing_columns="insert", extra_columns="ignore", schema=_schema(delta))


def _schema(delta: DeltaTable) -> pl.Schema:
    empty = pl.from_arrow(delta.to_pyarrow_dataset().schema.empty_table())
    assert isinstance(empty, pl.DataFrame)  # noqa: S101 - as above
    return empty.schema


def _scan(kind: str | None, files: list[Place]) -> pl.LazyFrame:
    if kind == "parquet":
        return scan_parquet(files)
    # Of a bucket by their URLs, and by the credentials of the environment, as all else; of HDFS, which Polars does not speak,
    # by what is in them.
    texts: Any = [_text(file) for file in files]
    options: Any = {"credential_provider": None}
    if kind == "csv":
        # As text: what is a number, and what only looks like one (007), the columns of the state say.
        return pl.scan_csv(texts, infer_schema=False, **options)
    # By all lines: a column that is empty in the first ten thousand has a type too.
    return pl.scan_ndjson(texts, infer_schema_length=None, **options)


def _text(file: Place) -> Any:
    if isinstance(file, HdfsPath):
        return io.BytesIO(file.read_bytes())
    return file.url if isinstance(file, ObjectPath) else file
