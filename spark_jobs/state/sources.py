"""What state can be made of: a table of the lakehouse, or Delta, Parquet, CSV or JSON lines on disk, as a lazy frame."""

from pathlib import Path

import polars as pl
from deltalake import DeltaTable

from spark_jobs.errors import KeyfoldError
from spark_jobs.lakehouse import Lakehouse, is_table

ENDINGS = {".parquet": "parquet", ".csv": "csv", ".json": "jsonl", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""Formats by how a file's name ends."""


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
    path = Path(source).expanduser()
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


def _delta(path: Path) -> pl.LazyFrame:
    delta = DeltaTable(str(path))
    files = delta.file_uris()
    if not files:
        empty = pl.from_arrow(delta.to_pyarrow_table())
        assert isinstance(empty, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union of frame and series
        return empty.lazy()
    # A file that is older than a column lacks it.
    return pl.scan_parquet(files, missing_columns="insert", extra_columns="ignore", schema=_schema(delta))


def _schema(delta: DeltaTable) -> pl.Schema:
    empty = pl.from_arrow(delta.to_pyarrow_dataset().schema.empty_table())
    assert isinstance(empty, pl.DataFrame)  # noqa: S101 - as above
    return empty.schema


def _scan(kind: str | None, files: list[Path]) -> pl.LazyFrame:
    if kind == "parquet":
        return pl.scan_parquet(files)
    if kind == "csv":
        # As text: what is a number, and what only looks like one (007), the columns of the state say.
        return pl.scan_csv(files, infer_schema=False)
    return pl.scan_ndjson(files, infer_schema_length=10_000)
