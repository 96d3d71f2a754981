"""Find a stream's landing, given to a run or configured for the deployment, and columns of its files that it does not know."""

import csv
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping

import pyarrow as pa
from pyarrow import types

from keyfold.errors import Misconfigured
from keyfold.ingestion.kafka.settings import (
    PREFIX,
    KafkaSettings,
    check_different,
    kafka_topics,
    values_by_stream,
)
from keyfold.ingestion.kafka.topic import KafkaTopic, OnGap, read_start
from keyfold.ingestion.listing import Landing, cannot_be_read, list_files
from keyfold.ingestion.parsing.text import file_type, open_text
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import parquet_file
from keyfold.storage.place import Place, to_place
from keyfold.stream import Stream
from keyfold.stream.source import EACH, PLACE, TEXT_OF, Path, name_of, path_of

LANDING_VARIABLE = "KEYFOLD_LANDING"

_NEWEST_FILES = 5


def find_landing(
    stream: str,
    given: str | None = None,
    *,
    start: str | None = None,
    on_gap: str | None = None,
    anew: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Landing | None:
    """Return the folder or topic that a run reads; None for the default landing folder of the stream.

    Without `given`, it is the stream's topic in KEYFOLD_KAFKA_TOPICS, else its folder in KEYFOLD_LANDING.

    Args:
        stream: the stream's name.
        given: a folder, the URL of one in a bucket, or `kafka://TOPIC`.
        start, on_gap, anew: options of a topic, see `KafkaTopic`; `start` as text.

    Raises:
        KeyfoldError: options of a topic are given for a folder, an option is invalid, or Kafka is not configured.

    Example:
        >>> find_landing("rides", "/data/rides", environment={})
        PosixPath('/data/rides')
        >>> find_landing("rides", environment={}) is None
        True
    """
    named = kafka_topics(environment).get(stream)
    source = given or (PREFIX + named if named else landing_folders(environment).get(stream))
    if source is not None and source.startswith(PREFIX):
        answers: dict[str, OnGap] = {"error": "error", "record": "record"}
        if on_gap and on_gap not in answers:
            raise Misconfigured(f"on_gap is {on_gap!r}: give one of {', '.join(answers)}")
        return KafkaTopic(
            source.removeprefix(PREFIX),
            read_start(start or "earliest"),
            answers[on_gap or "error"],
            anew,
            KafkaSettings.from_environment(environment),
        )
    if start or on_gap or anew:
        raise Misconfigured(
            f"start, on_gap and topic_anew go with a topic, as in {PREFIX}rides; {stream} is read from "
            f"{source or 'its landing folder'}"
        )
    return to_place(source) if source else None


def landing_folders(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the folders of KEYFOLD_LANDING, by stream. Entries are `stream=FOLDER`, separated by blanks.

    Raises:
        KeyfoldError: an entry is invalid, there is no such stream, it also has a topic, or two streams have one folder.

    Example:
        >>> landing_folders({"KEYFOLD_LANDING": "ride_points=/data/rides"})
        {'ride_points': '/data/rides'}
    """
    folders, places = values_by_stream(LANDING_VARIABLE, environment), dict[str, Place]()
    for stream, folder in folders.items():
        if not folder or folder.startswith(PREFIX):
            raise Misconfigured(f"{LANDING_VARIABLE}: {folder!r} is not a folder; topics go into KEYFOLD_KAFKA_TOPICS")
        # Raises if it is neither a path nor in a bucket.
        places[stream] = to_place(folder).expanduser().resolve()
        if stream in kafka_topics(environment):
            raise Misconfigured(
                f"{LANDING_VARIABLE} and KEYFOLD_KAFKA_TOPICS both name {stream}; remove it from one of them"
            )
    check_different(LANDING_VARIABLE, places)
    return folders


def landing_folder(lakehouse: Lakehouse, stream: str) -> Place:
    """Return the landing folder of a stream's files: that of KEYFOLD_LANDING, else the default one.

    Raises:
        KeyfoldError: as `landing_folders`.
    """
    folder = landing_folders().get(stream)
    return to_place(folder) if folder else lakehouse.landing(stream)


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
