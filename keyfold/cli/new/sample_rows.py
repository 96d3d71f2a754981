"""Read the first rows of a sample file, in the types that Polars infers."""

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import polars as pl
import pyarrow as pa

from keyfold.errors import KeyfoldError
from keyfold.ingestion.parsing import UnreadableFileError
from keyfold.ingestion.parsing.csv_lines import read_csv
from keyfold.ingestion.parsing.text import READABLE, file_type, read_chunks

ROWS = 10_000
"""Number of rows from which columns are inferred."""


def read_sample(path: Path) -> pl.DataFrame:
    """Read the first rows of a file of CSV, JSON lines or Parquet.

    Raises:
        KeyfoldError: the file has another extension.
        UnreadableFileError, OSError, ValueError, pl.exceptions.PolarsError: it cannot be read.
    """
    match file_type(path).format:
        case "csv":
            return _read_csv(_chunks(path))
        case "json":
            # What is no gzip or no UTF-8 is told apart by ingest, and lets Polars panic.
            next(_chunks(path), None)
            return pl.read_ndjson(path, n_rows=ROWS, infer_schema_length=ROWS)
        case "parquet":
            return pl.read_parquet(path, n_rows=ROWS)
        case _:
            raise KeyfoldError(f"{path}: ingest reads files that end with {READABLE}; rename the file")


def _chunks(path: Path) -> Iterator[bytearray]:
    return read_chunks(path, max_line=1 << 24, max_bytes=1 << 33)


def _read_csv(chunks: Iterator[bytearray]) -> pl.DataFrame:
    """Read the rows that ingest reads, without blank lines and lines that are none, in the types that Polars infers."""
    first = next(chunks, bytearray())
    lines = (line.decode() for line in first.splitlines(keepends=True) if line.strip())
    names = [name.strip() for name in next(csv.reader(lines), [])]
    if not names:
        raise UnreadableFileError("empty: it has no header")
    # Of a repeated name, ingest could not tell which column is meant; and a header without commas is one name.
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UnreadableFileError(f"its header names {twice!r} twice")
    if len(names) == 1 and (separator := next((one for one in ";\t|" if one in names[0]), None)):
        raise UnreadableFileError(f"its fields are separated by {separator!r}, and ingest reads those between commas")
    parts: list[pl.DataFrame] = []
    for rows in read_csv(pa.schema([(name, pa.string()) for name in names]), chain([first], chunks)):
        parts.append(pl.DataFrame(rows.columns))
        if sum(part.height for part in parts) >= ROWS:
            break
        if rows.rejects and not any(part.height for part in parts):
            raise UnreadableFileError(f"line {rows.rejects[0].line}: {rows.rejects[0].reason}")
    texts = pl.concat(parts).head(ROWS) if parts else pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    rows = pl.read_csv(texts.write_csv().encode(), infer_schema_length=ROWS) if texts.height else texts
    # Digits that a whole number would not give back, such as 007, are a code.
    codes = [
        texts[name]
        for name, values in rows.to_dict().items()
        if values.dtype.is_integer()
        and not values.cast(pl.Int64, strict=False).cast(pl.String).eq_missing(texts[name]).all()
    ]
    return rows.with_columns(codes)
