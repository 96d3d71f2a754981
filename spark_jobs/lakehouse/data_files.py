"""Data files of Delta tables, written by whoever has the rows; invisible until a commit names them (`commits`)."""

import os
import uuid
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from spark_jobs.lakehouse.files import new_file
from spark_jobs.lakehouse.parquet import read_parquet
from spark_jobs.objects.place import Place
from spark_jobs.times import ISO_FORMAT

ROWS_A_GROUP = 250_000
"""Rows of a Parquet row group: what one reader decodes at a time."""

STAGED = "_staged"
"""Folder below an upsert table's for rows that wait to be merged; Delta passes over names that begin with _."""


class WrittenFile(BaseModel):
    """A data file that no commit need have named yet.

    Attributes:
        path: below its table's folder.
        rows: how many it holds.
        bytes: its size.
        first, last: per column of times, the least and the greatest as ISO 8601 in UTC.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    rows: int
    bytes: int
    first: dict[str, str] = {}
    last: dict[str, str] = {}


def write_data_file(frame: pl.DataFrame, table: Place, schema: pa.Schema, folder: str = "") -> WrittenFile:
    """Write rows as one Parquet file below a table's folder, durably.

    Args:
        frame: the rows, with the schema's columns.
        table: the table's folder.
        schema: the table's columns; those that are times are counted in `first` and `last`.
        folder: below the table's, `STAGED` for rows of an upsert.

    Raises:
        OSError: the disk is full or fails.
    """
    # A new name each time: a second attempt must not write over a file that a done record names.
    path = PurePosixPath(folder) / f"part-{uuid.uuid4().hex}.parquet"
    frame = frame.select(schema.names)
    with new_file(table / path) as file:
        frame.write_parquet(file, compression="snappy", row_group_size=ROWS_A_GROUP)
        size = file.seek(0, os.SEEK_END)
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    spans = frame.select(
        *(pl.col(name).min().dt.strftime(ISO_FORMAT).alias(f"first {name}") for name in times),
        *(pl.col(name).max().dt.strftime(ISO_FORMAT).alias(f"last {name}") for name in times),
    )
    span: dict[str, Any] = spans.row(0, named=True) if times else {}
    return WrittenFile(
        path=path.as_posix(),
        rows=frame.height,
        bytes=size,
        first={name: span[f"first {name}"] for name in times if span[f"first {name}"]},
        last={name: span[f"last {name}"] for name in times if span[f"last {name}"]},
    )


def read_data_files(table: Place, files: Sequence[WrittenFile]) -> pl.DataFrame:
    """The rows of written files, whether a commit names them or not."""
    return pl.concat([read_parquet(table / file.path) for file in files], rechunk=False)
