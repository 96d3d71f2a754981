"""Detect schema drift: columns of landing files that the stream does not know."""

import csv
import json
from collections.abc import Collection, Iterable, Iterator

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


def find_drift(stream: Stream, files: Iterable[Place]) -> dict[Place, tuple[str, ...]]:
    """Return the raw columns of files that their stream does not know: names, and paths of fields beside those that it uses.

    They are ignored without harm. Of JSON, the first 100 lines are read. Files that cannot be read are skipped. A column that
    a file lacks is no matter here: if it is required, rows go to quarantine, and their reasons name it.

    Args:
        files: its newest landing files.
    """
    # Paths that the stream uses, paths that are known (used or ignored), and objects of which only some fields are used.
    taken = {path for name in stream.raw_names if name != PLACE for path in _paths(name.removesuffix(TEXT_OF))}
    # All fields of an object that is kept as a whole, or ignored, are known.
    known = taken | {path for name in stream.ignored for path in _paths(name)}
    opened = {path[:end] for path in taken for end in range(1, len(path))}
    found: dict[Place, tuple[str, ...]] = {}
    for file in () if TEXT_OF in stream.raw_names else files:
        try:
            unknown = {_stranger(path, known, opened) for path in _columns(file)} - {""}
        except (OSError, EOFError, UnicodeDecodeError, csv.Error, pa.ArrowException):
            continue
        if unknown:
            found[file] = tuple(sorted(unknown))
    return found


def _stranger(path: Path, known: Collection[Path], opened: Collection[Path]) -> str:
    """Return the name of the outermost unknown part of a path; empty if all of it is known."""
    ways = [path[:end] for end in range(1, len(path) + 1)]
    if any(way in known for way in ways):
        return ""
    return name_of(next((way for way in ways if way not in opened), ()))


def _paths(name: str) -> tuple[Path, Path]:
    """Return the paths at which a name's values may be, with any index of a list."""
    return (name,), tuple(step if isinstance(step, str) else EACH for step in path_of(name))


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
