"""Read a sample of raw rows as ingest would, before their stream is declared."""

import csv
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from keyfold.cli.new.flattening import flatten, flatten_table
from keyfold.errors import KeyfoldError
from keyfold.ingestion.formats import READABLE, Format, file_type
from keyfold.ingestion.parsing import Reject, UnreadableFileError
from keyfold.ingestion.parsing.csv_lines import read_csv
from keyfold.ingestion.parsing.declared_times import parse_times
from keyfold.ingestion.parsing.text import read_chunks
from keyfold.stream.raw_paths import EACH, name_of
from keyfold.stream.raw_paths import Path as Keys

MAX_ROWS = 200_000
"""Number of rows read from a file: enough to infer its columns, and read in seconds."""

_MAX_LINE = 16 << 20
_MAX_BYTES = 8 << 30
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True)
class Sample:
    """The first rows of a file.

    Attributes:
        path: the file.
        format: the file's format.
        columns: values by raw name, in the order of the file; NULL if a row has none. CSV columns are all text.
        odd: for JSON, the number of values of a column that are not of its most common type.
        kept: columns of lists or of objects without fixed fields, which are JSON text, with the reason.
        misfits: for JSON, the number of values of a flattened object column that are not objects.
        bad: lines that are not valid rows.
        is_cut: whether the file has more rows than were read.
    """

    path: Path
    format: Format
    columns: dict[str, pl.Series]
    odd: dict[str, int] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    misfits: dict[str, int] = field(default_factory=dict)
    bad: Sequence[Reject] = ()
    is_cut: bool = False

    @property
    def rows(self) -> int:
        """The number of valid rows."""
        return max((len(values) for values in self.columns.values()), default=0)


def read_sample(path: Path, elements: Keys | None = None) -> Sample:
    """Read a file of CSV, JSON lines or Parquet.

    Args:
        elements: for JSON, the path of a list whose elements are read as rows.

    Raises:
        KeyfoldError: the file has another format, cannot be read, or has no valid rows; the message says what to do.
    """
    found = file_type(path).format
    if found is None:
        raise KeyfoldError(f"{path}: ingest reads files that end with {READABLE}; rename the file")
    if elements is not None and found != "json":
        raise KeyfoldError(f"{path}: elements of lists can be sampled only from JSON lines")
    read = {"csv": _read_csv, "json": partial(_read_json, elements=elements), "parquet": _read_parquet}[found]
    try:
        sample = read(path)
    except UnreadableFileError as error:
        raise KeyfoldError(f"{path}: {error}") from None
    except OSError as error:
        raise KeyfoldError(f"{path} cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error, pa.ArrowException) as error:
        raise KeyfoldError(f"{path} cannot be read: {error}") from None
    if not sample.rows:
        why = f"; the first invalid line is {sample.bad[0].line}: {sample.bad[0].reason}" if sample.bad else ""
        raise KeyfoldError(f"{path} has no valid rows{why}")
    return sample


def _text(path: Path) -> Iterator[bytes]:
    return read_chunks(path, max_line=_MAX_LINE, max_bytes=_MAX_BYTES)


def _read_csv(path: Path) -> Sample:
    names = _header(path)
    schema = pa.schema([(name, pa.string()) for name in names if name])
    tables: list[pa.Table] = []
    bad: list[Reject] = []
    for rows in read_csv(schema, _text(path)):
        tables.append(rows.columns)
        bad.extend(rows.rejects)
        if sum(table.num_rows for table in tables) > MAX_ROWS:
            break
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    kept = table.slice(0, MAX_ROWS)
    columns = {name: pl.Series(pl.from_arrow(kept.column(name))).alias(name) for name in schema.names}
    return Sample(path, "csv", columns, bad=bad, is_cut=table.num_rows > MAX_ROWS)


def _header(path: Path) -> list[str]:
    """Read the header, which is required, since ingest finds columns by name."""
    chunk = next(_text(path), b"")
    # More than one line, since a quoted name may contain a line break.
    lines = [line for line in islice(chunk.decode().splitlines(keepends=True), 1000) if line.strip()]
    names = [name.strip() for name in next(csv.reader(lines), [])]
    where = f"{path}: the first line, {lines[0].strip()[:80] if lines else ''!r},"
    if len(names) == 1:
        for separator, called in _SEPARATORS.items():
            if separator in names[0]:
                raise KeyfoldError(
                    f"{where} is separated by {called}; ingest reads commas only: convert the files first"
                )
    if any(_is_data(name) for name in names):
        raise KeyfoldError(
            f"{where} is a row, not a header; ingest finds columns by name: add a line of names above it"
        )
    return names


def _is_data(name: str) -> bool:
    values = pl.Series([name])
    is_number = values.cast(pl.Float64, strict=False).is_not_null().item()
    return bool(is_number or parse_times(values.str.head(10), "%Y-%m-%d").is_not_null().item())


def _elements(row: dict[str, Any], path: Keys) -> list[dict[str, Any]]:
    inside: Any = row
    for step in path:
        inside = inside.get(step) if isinstance(inside, dict) else None
    return [{name_of((*path, EACH)): one} for one in inside] if isinstance(inside, list) else []


def _read_json(path: Path, elements: Keys | None) -> Sample:
    values: dict[str, list[Any]] = {}
    bad: list[Reject] = []
    count, is_cut = 0, False
    for number, line in _lines(path):
        if count >= MAX_ROWS:
            is_cut = True
            break
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            bad.append(Reject(line.decode(), number, f"not valid JSON: {error}"))
            continue
        if not isinstance(row, dict):
            bad.append(Reject(line.decode(), number, "not a JSON object"))
            continue
        for one in [row] if elements is None else _elements(row, elements):
            for name, value in one.items():
                column = values.setdefault(name, [])
                column.extend([None] * (count - len(column)))
                column.append(value)
            count += 1
    columns, odd = {}, {}
    for column in values.values():
        column.extend([None] * (count - len(column)))
    flat = flatten(values)
    for name, found in flat.values.items():
        columns[name], odd[name] = _typed(name, found)
    return Sample(path, "json", columns, odd, flat.kept, flat.misfits, bad, is_cut)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    for chunk in _text(path):
        for line in chunk.removesuffix(b"\n").split(b"\n"):
            number += 1
            if line.strip():
                yield number, line


def _typed(name: str, values: list[Any]) -> tuple[pl.Series, int]:
    """Cast a JSON column to its most common type; return it and the number of other values. Object if ingest cannot read it."""
    kinds = Counter(_kind(value) for value in values if value is not None)
    if not kinds:
        return pl.Series(name, [None] * len(values), dtype=pl.Null), 0
    # JSON writes some floats without a fraction, so integers belong to a column of floats.
    if kinds["real"]:
        kinds["real"] += kinds.pop("integer", 0) + kinds.pop("large", 0)
    kind, count = kinds.most_common(1)[0]
    dtype = {"truth": pl.Boolean, "integer": pl.Int64, "real": pl.Float64, "text": pl.String}.get(kind)
    if kind == "texts":
        dtype = pl.List(pl.String)
    if dtype is None:
        return pl.Series(name, values, dtype=pl.Object), 0
    fits = {kind, "integer", "large"} if kind == "real" else {kind}
    kept = [value if value is not None and _kind(value) in fits else None for value in values]
    return pl.Series(name, kept, dtype=dtype, strict=False), sum(kinds.values()) - count


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, int):
        return "integer" if -(1 << 63) <= value < 1 << 63 else "large"
    if isinstance(value, float):
        return "real"
    if isinstance(value, str):
        return "text"
    is_texts = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return "texts" if is_texts else "nested"


def _read_parquet(path: Path) -> Sample:
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise KeyfoldError(f"{path} has the column {', '.join(twice)} twice; rename one")
        batches, count = [], 0
        for batch in file.iter_batches(100_000, use_threads=False):
            batches.append(batch)
            count += batch.num_rows
            if count >= MAX_ROWS:
                break
        table = pa.Table.from_batches(batches, file.schema_arrow).slice(0, MAX_ROWS)
        is_cut = file.metadata.num_rows > MAX_ROWS
    flat, kept = flatten_table(table)
    columns = {name: pl.Series(pl.from_arrow(column)).alias(name) for name, column in flat.items()}
    return Sample(path, "parquet", columns, kept=kept, is_cut=is_cut)
