"""Schema drift: raw columns of landing files that their stream does not know, and columns that it needs and they lack."""

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from keyfold.ingestion.formats import file_type, open_text
from keyfold.lakehouse.parquet import parquet_file
from keyfold.storage.place import Place
from keyfold.stream import Stream

_LINES = 100
_LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class Drift:
    """How a file's columns and its stream's differ.

    Attributes:
        file: which.
        unknown: raw columns that no column of the stream is made of; they are left out without harm.
        lacking: columns that an event must have and none of whose raw columns is in the file.
    """

    file: Place
    unknown: tuple[str, ...]
    lacking: tuple[str, ...]

    @property
    def is_any(self) -> bool:
        return bool(self.unknown or self.lacking)


def find_drift(stream: Stream, files: Iterable[Place]) -> list[Drift]:
    """Compare files' columns with their stream's; of JSON, those of the first hundred lines. Unreadable files are left out."""
    found = []
    for file in files:
        try:
            columns = _columns(file)
        except (OSError, EOFError, UnicodeDecodeError, csv.Error, pa.ArrowException):
            continue
        if columns:
            found.append(_drift(stream, file, columns))
    return found


def _drift(stream: Stream, file: Place, columns: frozenset[str]) -> Drift:
    known = {*stream.raw_schema.names, *stream.ignored}
    lacking = [
        field.name
        for field in stream.schema
        if not (field.nullable or _is_stood_in_for(stream, field.name) or _has_source(stream, field.name, columns))
    ]
    return Drift(file, tuple(sorted(columns - known)), tuple(lacking))


def _is_stood_in_for(stream: Stream, column: str) -> bool:
    return stream.missing_time == "arrival" and column == stream.event_time


def _has_source(stream: Stream, column: str, columns: frozenset[str]) -> bool:
    source = stream.source(column)
    return source.path or source.constant is not None or any(name in columns for name in source.names)


def _columns(file: Place) -> frozenset[str]:
    found = file_type(file).format
    if found == "parquet":
        with parquet_file(file) as opened:
            return frozenset(opened.schema_arrow.names)
    is_csv = found == "csv"
    with open_text(file) as source:
        # Bounded: a file may be one line of gigabytes.
        lines = [source.readline(_LINE_BYTES) for _ in range(1 if is_csv else _LINES)]
    if is_csv:
        return frozenset(name.strip() for name in next(csv.reader([lines[0].decode("utf-8-sig")]), []))
    return frozenset(name for line in lines for name in _keys(line))


def _keys(line: bytes) -> Iterable[str]:
    try:
        found = json.loads(line)
    except ValueError:
        return ()
    return found.keys() if isinstance(found, dict) else ()
