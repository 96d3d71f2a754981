"""Detect schema drift: columns of landing files that the stream does not know, and required columns that they lack."""

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.formats import file_type, open_text
from keyfold.lakehouse.reading import parquet_file
from keyfold.storage.place import Place
from keyfold.stream import Stream
from keyfold.stream.raw_paths import EACH, PLACE, TEXT_OF, Path, name_of, path_of

_LINES = 100
_LINE_BYTES = 1 << 20
_ELEMENTS = 10


@dataclass(frozen=True)
class Drift:
    """The differences between the columns of a file and of its stream.

    Attributes:
        file: the file.
        unknown: raw columns that the stream does not use, and fields (as paths) of objects of which it uses others. They are
            ignored without harm.
        lacking: required columns for which the file has no raw column.
    """

    file: Place
    unknown: tuple[str, ...]
    lacking: tuple[str, ...]

    @property
    def is_any(self) -> bool:
        return bool(self.unknown or self.lacking)


def find_drift(stream: Stream, files: Iterable[Place], *, sharing: Sequence[Stream] = ()) -> list[Drift]:
    """Compare the columns of files with those of their stream. Of JSON, the first 100 lines are read.

    Files that cannot be read are skipped.

    Args:
        files: its newest landing files.
        sharing: the streams that share its landing. Columns that any of them knows are not drift, and no column is lacking,
            since a file may have no row of this stream.
    """
    drifts = []
    for file in files:
        try:
            columns = _columns(file)
        except (OSError, EOFError, UnicodeDecodeError, csv.Error, pa.ArrowException):
            continue
        if columns:
            drifts.append(_drift(stream, file, columns, sharing))
    return drifts


def _drift(stream: Stream, file: Place, columns: frozenset[Path], sharing: Sequence[Stream]) -> Drift:
    streams = sharing or (stream,)
    lacking = [
        field.name
        for field in stream.schema
        if len(streams) == 1
        and not (field.nullable or _is_stood_in_for(stream, field.name) or _has_source(stream, field.name, columns))
    ]
    # Paths that some stream uses, paths that are known (used or ignored), and objects of which only some fields are used.
    names = {name for one in streams for name in (*one.raw_names, *one.condition_columns)}
    taken = {path for name in names if name != PLACE for path in _paths(name.removesuffix(TEXT_OF))}
    # All fields of an object that is kept as a whole, or ignored, are known.
    known = taken | {path for one in streams for name in one.ignored for path in _paths(name)}
    opened = {path[:end] for path in taken for end in range(1, len(path))}
    unknown = set() if TEXT_OF in names else {_stranger(path, known, opened) for path in columns}
    return Drift(file, tuple(sorted(unknown - {""})), tuple(lacking))


def _stranger(path: Path, known: Collection[Path], opened: Collection[Path]) -> str:
    """Return the name of the outermost unknown part of a path; empty if all of it is known."""
    ways = [path[:end] for end in range(1, len(path) + 1)]
    if any(way in known for way in ways):
        return ""
    return name_of(next((way for way in ways if way not in opened), ()))


def _paths(name: str) -> tuple[Path, Path]:
    """Return the paths at which a name's values may be, with any index of a list."""
    return (name,), tuple(step if isinstance(step, str) else EACH for step in path_of(name))


def _is_stood_in_for(stream: Stream, column: str) -> bool:
    return stream.missing_time == "arrival" and column == stream.event_time


def _has_source(stream: Stream, column: str, columns: frozenset[Path]) -> bool:
    source = stream.source(column)
    if source.path or source.place or TEXT_OF in source.raw_names:
        return True
    wanted = {path for name in source.names for path in _paths(name)}
    return any(path[:end] in wanted for path in columns for end in range(1, len(path) + 1))


def _columns(file: Place) -> frozenset[Path]:
    """Return the paths of the values in a file's rows."""
    form = file_type(file).format
    if form == "parquet":
        with parquet_file(file) as opened:
            return frozenset(path for field in opened.schema_arrow for path in _of_type((field.name,), field.type))
    is_csv = form == "csv"
    with open_text(file) as source:
        # Bounded, since a file may be a single line of gigabytes.
        lines = [source.readline(_LINE_BYTES) for _ in range(1 if is_csv else _LINES)]
    if is_csv:
        return frozenset((name.strip(),) for name in next(csv.reader([lines[0].decode("utf-8-sig")]), []))
    return frozenset(path for line in lines for path in _of_line(line))


def _of_type(path: Path, kind: pa.DataType) -> Iterator[Path]:
    if types.is_struct(kind) and kind.num_fields:
        for field in kind:
            yield from _of_type((*path, field.name), field.type)
    elif types.is_list(kind) or types.is_large_list(kind):
        yield from _of_type((*path, EACH), kind.value_type)
    else:
        yield path


def _of_line(line: bytes) -> Iterable[Path]:
    try:
        content = json.loads(line)
        return list(_of_value((), content)) if isinstance(content, dict) else ()
    except (ValueError, RecursionError):
        return ()


def _of_value(path: Path, value: object) -> Iterator[Path]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _of_value((*path, key), one)
    elif isinstance(value, list) and value:
        for one in value[:_ELEMENTS]:
            yield from _of_value((*path, EACH), one)
    elif path:
        yield path
