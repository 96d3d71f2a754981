"""Read the first rows of a sample file, in the types that Polars infers, and propose what its stream's files are like."""

import codecs
import csv
import io
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from keyfold.errors import KeyfoldError
from keyfold.ingestion.parsing import UnreadableFileError
from keyfold.ingestion.parsing.csv_lines import SEPARATORS, read_csv
from keyfold.ingestion.parsing.text import READABLE, file_type, open_text, read_chunks
from keyfold.storage.place import to_place
from keyfold.stream import FileFormat

ROWS = 10_000
"""Number of rows from which columns are inferred."""

_LOOKED_AT = 1 << 20
"""Bytes from which the encoding is inferred."""


class Sample(NamedTuple):
    """The first rows of a sample, and what its file is like."""

    rows: pl.DataFrame
    format: FileFormat = FileFormat()


def read_sample(path: Path) -> Sample:
    """Read the first rows of a file of CSV, JSON lines or Parquet.

    Raises:
        KeyfoldError: the file has another extension.
        UnreadableFileError, OSError, ValueError, pl.exceptions.PolarsError: it cannot be read.
    """
    match file_type(path).format:
        case "csv":
            encoding = _encoding(path)
            return _read_csv(_chunks(path, encoding), encoding)
        case "json":
            # What is no gzip is told apart by ingest, and lets Polars panic.
            encoding = _encoding(path)
            text = io.BytesIO(next(_chunks(path, encoding), b""))
            rows = pl.read_ndjson(text, n_rows=ROWS, infer_schema_length=ROWS)
            return Sample(rows, FileFormat(encoding=encoding))
        case "parquet":
            return Sample(pl.read_parquet(path, n_rows=ROWS))
        case _:
            raise KeyfoldError(f"{path}: ingest reads files that end with {READABLE}; rename the file")


def _chunks(path: Path, encoding: str) -> Iterator[bytearray]:
    return read_chunks(to_place(path), max_line=1 << 24, max_bytes=1 << 33, encoding=encoding)


def _encoding(path: Path) -> str:
    """Return the encoding of a text: UTF-8 if it is that, UTF-16 by its mark, or else that of Windows in the west."""
    with open_text(to_place(path)) as source:
        begin = source.read(_LOOKED_AT)
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin)
    except UnicodeDecodeError:
        # NUL bytes are no text: ingest says so.
        return "utf-8" if b"\0" in begin else "cp1252"
    return "utf-8"


def _read_csv(chunks: Iterator[bytearray], encoding: str) -> Sample:
    """Read the rows that ingest reads, without blank lines and lines that are none, in the types that Polars infers."""
    first = next(chunks, bytearray())
    lines = (line.decode() for line in first.splitlines(keepends=True) if line.strip())
    header = next(lines, "")
    # A tab beside a comma may be a blank around a name.
    separator = max((",", *(sign for sign in SEPARATORS if sign != "\t" or "," not in header)), key=header.count)
    names = [name.strip() for name in next(csv.reader(chain([header], lines), delimiter=separator), [])]
    if not names:
        raise UnreadableFileError("empty: it has no header")
    # Of a repeated name, ingest could not tell which column is meant; and a header without commas is one name.
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UnreadableFileError(f"its header names {twice!r} twice")
    parts: list[pl.DataFrame] = []
    for rows in read_csv(pa.schema([(name, pa.string()) for name in names]), chain([first], chunks), separator):
        parts.append(pl.DataFrame(rows.columns))
        if sum(part.height for part in parts) >= ROWS:
            break
        if rows.rejects and not any(part.height for part in parts):
            raise UnreadableFileError(f"line {rows.rejects[0].line}: {rows.rejects[0].reason}")
    texts = pl.concat(parts).head(ROWS) if parts else pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    decimals = [name for name in texts.columns if _has_comma(texts[name])] if separator != "," else []
    points = texts.with_columns(pl.col(name).str.replace(",", ".", literal=True) for name in decimals)
    rows = pl.read_csv(points.write_csv().encode(), infer_schema_length=ROWS) if texts.height else texts
    # Digits that a whole number would not give back, such as 007, are a code.
    codes = [
        texts[name]
        for name, values in rows.to_dict().items()
        if values.dtype.is_integer()
        and not values.cast(pl.Int64, strict=False).cast(pl.String).eq_missing(texts[name]).all()
    ]
    decimal = "," if decimals else "."
    return Sample(rows.with_columns(codes), FileFormat(delimiter=separator, decimal=decimal, encoding=encoding))


def _has_comma(texts: pl.Series) -> bool:
    """Whether all texts are numbers, with a comma before the fraction in some."""
    there = texts.drop_nulls()
    return bool(
        there.str.contains(",", literal=True).any() and there.str.contains(r"^\s*[+-]?[0-9]+(?:,[0-9]+)?\s*$").all()
    )
