"""Find the columns of landing files that their stream does not know."""

import csv
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.child import ChildEndedError, WorkFailedError, in_child
from keyfold.ingestion.listing import cannot_be_read, list_files
from keyfold.ingestion.parsing import UnreadableFileError, faults_of_files
from keyfold.ingestion.parsing.csv_lines import MAX_COLUMNS
from keyfold.ingestion.parsing.text import READABLE, file_type, open_text
from keyfold.storage.place import Place
from keyfold.stream import FileFormat, Stream
from keyfold.stream.source import EACH, PLACE, TEXT_OF, Path, name_of, path_of

_NEWEST_FILES = 5
_LINES = 100
_LINE_BYTES = 1 << 20
_ELEMENTS = 10


class Drift(NamedTuple):
    """What the files of a stream have that it does not know.

    Attributes:
        unknown: the raw columns that it does not know, by file: names, and paths of fields beside those that it uses.
        unreadable: why files cannot be read, by file.
    """

    unknown: Mapping[Place, tuple[str, ...]]
    unreadable: Mapping[Place, str]


def newest_files(stream: Stream, landing: Place) -> list[Place]:
    """Return the landing files that changed last, for `find_drift`.

    Raises:
        KeyfoldError: the landing folder cannot be read.
    """
    try:
        listing = list_files(landing, done_marker=stream.done_marker)
    except OSError as error:
        raise cannot_be_read(landing, error) from None
    files = [file for file in listing.files if file.refused is None]
    return [landing / file.path for file in sorted(files, key=lambda file: file.changed_at)[-_NEWEST_FILES:]]


def find_drift(stream: Stream, files: Iterable[Place], landing: Place | None = None) -> Drift:
    """Return the raw columns of files that their stream does not know.

    They are ignored without harm. Of JSON, the first 100 lines are read. A column that a file lacks is no matter here: if it is
    required, rows go to quarantine, and their reasons name it.

    Args:
        files: its newest landing files.
        landing: their folder, which no link may lead out of; None if links may lead anywhere.
    """
    # Paths that the stream uses, paths that are known (used or ignored), and objects of which only some fields are used.
    taken = {path for name in stream.raw_names if name != PLACE for path in _paths(name.removesuffix(TEXT_OF))}
    # All fields of an object that is kept as a whole, or ignored, are known.
    paths = taken | {path for name in stream.ignored for path in _paths(name)}
    opened = {path[:end] for path in taken for end in range(1, len(path))}
    unknown: dict[Place, tuple[str, ...]] = {}
    unreadable: dict[Place, str] = {}
    for file in () if TEXT_OF in stream.raw_names else files:
        try:
            names = {_stranger(path, paths, opened) for path in _columns(stream.format, file, landing)} - {""}
        except UnreadableFileError as error:
            unreadable[file] = str(error)
        except ChildEndedError as error:
            unreadable[file] = f"the file cannot be read: its reader {error}"
        except (OSError, WorkFailedError) as error:
            unreadable[file] = f"the file cannot be read: {error}"
        else:
            unknown |= {file: tuple(sorted(names))} if names else {}
    return Drift(unknown, unreadable)


def _stranger(path: Path, paths: Collection[Path], opened: Collection[Path]) -> str:
    """Return the name of the outermost unknown part of a path; empty if all of it is known."""
    ways = [path[:end] for end in range(1, len(path) + 1)]
    if any(way in paths for way in ways):
        return ""
    return name_of(next((way for way in ways if way not in opened), ()))


def _paths(name: str) -> tuple[Path, Path]:
    """Return the paths at which a name's values may be, with any index of a list."""
    return (name,), tuple(step if isinstance(step, str) else EACH for step in path_of(name))


def _columns(form: FileFormat, file: Place, landing: Place | None) -> frozenset[Path]:
    """Return the paths of the values in a file's rows.

    Raises:
        UnreadableFileError: the file is faulty.
    """
    kind = file_type(file).format
    if kind is None:
        raise UnreadableFileError(f"the file's extension is not one that ingest reads ({READABLE})")
    with faults_of_files():
        if kind == "parquet":
            # In a child process, which a corrupt file may end.
            return next(in_child(_columns_of_parquet, file, landing))
        is_csv = kind == "csv"
        with open_text(file, landing, form.encoding) as source:
            # Bounded, since a file may be a single line of gigabytes.
            lines = [source.readline(_LINE_BYTES) for _ in range(1 if is_csv else _LINES)]
    return (
        _of_header(lines[0], form.delimiter) if is_csv else frozenset(path for line in lines for path in _of_line(line))
    )


def _columns_of_parquet(file: Place, landing: Place | None) -> Iterator[frozenset[Path]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes 0.1 s

    with file.open_for_reading(within=landing) as opened:
        if not opened.seek(0, os.SEEK_END):  # as ingest reads it
            yield frozenset()
            return
        yield frozenset(path for field in pq.read_schema(opened) for path in _of_type((field.name,), field.type))


def _of_header(line: bytes, delimiter: str) -> frozenset[Path]:
    try:
        names = next(csv.reader([line.decode("utf-8-sig")], delimiter=delimiter), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnreadableFileError(f"the CSV header cannot be read: {error}") from None
    if len(names) > MAX_COLUMNS:
        raise UnreadableFileError(f"the CSV header has {len(names):,} columns, and at most {MAX_COLUMNS:,} are read")
    return frozenset((name.strip(),) for name in names)


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
        for key, inner in value.items():
            yield from _of_value((*path, key), inner)
    elif isinstance(value, list) and value:
        for element in value[:_ELEMENTS]:
            yield from _of_value((*path, EACH), element)
    elif path:
        yield path
