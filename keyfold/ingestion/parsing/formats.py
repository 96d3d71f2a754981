"""Parse files of any format, and Kafka messages (one JSON object each), into validated rows.

A file that cannot be read is rejected as a whole. Of messages, such a fault (binary, not UTF-8, too long) rejects the message
alone. Blank messages and messages without a value are rejected too, so that every message is accounted for.
"""

import errno
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from polars.exceptions import PanicException

from keyfold.errors import first_line
from keyfold.ingestion.child import WorkFailedError, in_child
from keyfold.ingestion.parsing.beginning import Beginning
from keyfold.ingestion.parsing.csv_lines import read_csv
from keyfold.ingestion.parsing.exploding import exploded
from keyfold.ingestion.parsing.json_lines import read_json, read_objects
from keyfold.ingestion.parsing.mapping import path_value
from keyfold.ingestion.parsing.parquet import read_parquet
from keyfold.ingestion.parsing.rows import Reject, Rows, ValidatedRows, validate_rows
from keyfold.ingestion.parsing.text import READABLE, UnreadableFileError, file_type, read_chunks
from keyfold.runners.in_threads import in_threads
from keyfold.storage.place import Place, to_place
from keyfold.storage.store_failures import StoreError
from keyfold.stream import Stream
from keyfold.stream.source import TEXT_OF, name_of

_FILE_FAULTS = {
    *(None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
}
"""Error numbers of faulty files (None: errors of Arrow and gzip). Others, such as a full or failing disk, are not the file's
fault: they fail the run, and the next run reads the file again."""


def parse_file(
    stream: Stream,
    path: Path | Place,
    arrived: datetime,
    landing: Place | None = None,
    oldest: datetime | None = None,
    threads: int = 1,
) -> Iterator[ValidatedRows]:
    """Parse a file, chunk by chunk.

    Args:
        stream: the stream of its rows.
        path: the file, whose extension determines its format.
        arrived: when it was admitted (UTC).
        landing: the landing folder, which no link may lead out of. Columns taken from the path take what is below it; without
            it, the file's name.
        oldest: the oldest event time that is accepted; None if any is.
        threads: number of threads that parse chunks at the same time.

    Raises:
        UnreadableFileError: the file is rejected as a whole; rows yielded before do not count.
    """
    path = to_place(path)
    value, beginning = path_value(path, landing), Beginning()

    def parse(read: Callable[[], Sequence[Rows]]) -> Iterable[ValidatedRows]:
        rows_of_chunk = read()
        parts = (part for rows in rows_of_chunk for part in exploded(stream, rows))
        validated = (validate_rows(stream, part, arrived, value, oldest) for part in parts)
        # What lists explode to is made piece by piece, since a chunk's may be more than the memory.
        return validated if stream.list_path else list(validated)

    with faults_of_files():
        chunks = iter(_read(stream, path, landing))
        # The first one is parsed before others are read: what it says of its file may end the work.
        first = (parse(chunk) for chunk in islice(chunks, 1))
        for parsed in chain(first, in_threads((partial(parse, chunk) for chunk in chunks), threads)):
            yield from beginning.judged(parsed)


def parse_file_safely(
    stream: Stream, path: Place, arrived: datetime, landing: Place, oldest: datetime | None, threads: int = 1
) -> Iterator[ValidatedRows]:
    """Parse a file as `parse_file` does; a binary file (Parquet) in a child process.

    Compressed text needs none: zlib and the checksum of gzip find what has flipped.

    Raises:
        UnreadableFileError: the file is rejected as a whole; rows yielded before do not count.
        ChildEndedError: the child ended, or did not answer.
        OSError: a disk or store fails.
    """
    arguments = (stream, path, arrived, landing, oldest, threads)
    if file_type(path).format != "parquet":
        yield from parse_file(*arguments)
        return
    try:
        yield from in_child(parse_file, *arguments)
    except UnreadableFileError:
        raise
    except WorkFailedError as error:
        raise UnreadableFileError(f"the file cannot be read: {error}") from None


@contextmanager
def faults_of_files() -> Iterator[None]:
    """Turn errors that are the file's fault into UnreadableFileError.

    Raises:
        UnreadableFileError: the file is faulty.
    """
    try:
        yield
    # A subclass of ArrowException, but running out of memory is not the file's fault.
    except pa.ArrowMemoryError:
        raise
    except OSError as error:
        if isinstance(error, StoreError) or error.errno not in _FILE_FAULTS:
            raise
        raise UnreadableFileError(f"the file cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error, pa.ArrowException) as error:
        raise UnreadableFileError(f"the file cannot be read: {error}") from None
    except PanicException as error:
        raise UnreadableFileError(
            f"the file cannot be read: it has a value that no reader takes ({first_line(error)})"
        ) from None


def _read(stream: Stream, path: Place, landing: Place | None) -> Iterator[Callable[[], Sequence[Rows]]]:
    """Yield functions that return the rows of a file's chunks."""
    form = file_type(path).format
    if form is None:
        raise UnreadableFileError(f"the file's extension is not one that ingest reads ({READABLE})")
    if form == "parquet":
        limits = {"max_bytes": stream.max_file_bytes, "max_row": stream.max_line_bytes}
        return (partial(list, [rows]) for rows in read_parquet(stream.raw_schema, path, landing, **limits))
    limits = {"max_line": stream.max_line_bytes, "max_bytes": stream.max_file_bytes}
    text = read_chunks(path, landing, encoding=stream.format.encoding, **limits)
    if form == "json":
        return read_json(stream.raw_schema, text, stream.missing)
    if unfit := _unfit_for_csv(stream):
        raise UnreadableFileError(unfit)
    names = dict.fromkeys(name.removesuffix(TEXT_OF) for name in stream.raw_names)
    schema = pa.schema([(name, pa.string()) for name in names])
    rows_of_file = read_csv(schema, text, stream.format.delimiter)
    return (partial(list, [replace(rows, decimal=stream.format.decimal)]) for rows in rows_of_file)


def _unfit_for_csv(stream: Stream) -> str:
    """Say why a stream cannot have rows of CSV; empty if it can."""
    if stream.list_path is None and TEXT_OF not in stream.raw_names:
        return ""
    lacking = "the text of a whole JSON line" if stream.list_path is None else f"{name_of(stream.list_path)}[]"
    return f"the file is CSV, which has no lists or objects, but stream {stream.name} needs {lacking}"


Numbers = npt.NDArray[np.int64]

_BLANK = b" \t\r\n"


def parse_messages(
    stream: Stream,
    values: Sequence[bytes | None],
    numbers: Numbers,
    arrived: datetime | pl.Series,
    *,
    beside: pa.Table | None = None,
    faults: Mapping[int, str] | None = None,
    path: str | None = None,
    oldest: datetime | None = None,
) -> ValidatedRows:
    """Parse messages.

    Args:
        stream: the stream of the messages.
        values: the raw values; None for a message without one.
        numbers: increasing numbers of the messages, for their rows' `lines`.
        arrived: when they arrived (UTC): one time for all, or one for each.
        beside: raw columns from outside of the value, one row per message. They take precedence over the value's fields.
        faults: faults of messages outside of their values, by position.
        path: the value of columns that the stream takes from the path.
        oldest: the oldest event time that is accepted; None if any is.
    """
    own = {} if beside is None else {name: beside.column(name) for name in beside.column_names}
    schema = pa.schema([field for field in stream.raw_schema if field.name not in own])
    text, reasons = _as_lines(values, stream.max_line_bytes, faults or {})
    rejects = [Reject(_shown(values[at]), int(numbers[at]), reason) for at, reason in reasons.items()]
    parts = [validate_rows(stream, Rows(pa.table({}), numbers[:0], lambda _: "", rejects), arrived)]
    for rows in read_objects(schema, text, numbers, stream.missing):
        for part in exploded(stream, _of_messages(rows, values, numbers, own)):
            arrivals = (
                arrived if isinstance(arrived, datetime) else arrived.gather(np.searchsorted(numbers, part.lines))
            )
            parts.append(validate_rows(stream, part, arrivals, path, oldest))
    return _together(parts)


def _as_lines(values: Sequence[bytes | None], limit: int, faults: Mapping[int, str]) -> tuple[bytes, dict[int, str]]:
    """Return messages as lines, blank for those with a fault, and the faults by position."""
    if not faults and None not in values:
        text = b"\n".join(values)  # pyright: ignore[reportArgumentType, reportCallIssue] - none is None
        is_short = len(text) <= limit or max(map(len, values)) <= limit  # pyright: ignore[reportArgumentType]
        if is_short and text.count(b"\n") == len(values) - 1 and b"\0" not in text and _decodes(text):
            blank = {at: _EMPTY for at, value in enumerate(values) if not (value or b"").strip(_BLANK)}
            return text, blank
    reasons = {
        at: reason for at, value in enumerate(values) if (reason := faults.get(at) or _fault(value, limit)) is not None
    }
    # A carriage return is blank for JSON as well, and ends no line.
    lines = (b"" if at in reasons or not value else value.replace(b"\n", b"\r") for at, value in enumerate(values))
    return b"\n".join(lines), reasons


def _of_messages(
    rows: Rows, values: Sequence[bytes | None], numbers: Numbers, beside: Mapping[str, pa.ChunkedArray]
) -> Rows:
    """Return rows with the messages in place of their lines, and the columns beside them."""
    # As numbers increase, a search for a row's number finds the position of its message.
    at = np.searchsorted(numbers, rows.lines)
    columns = rows.columns
    for name, column in beside.items():
        columns = columns.append_column(name, column.take(pa.array(at)))
    rejects = [
        replace(reject, raw=_line(values[int(np.searchsorted(numbers, reject.line))])) for reject in rows.rejects
    ]
    return replace(rows, columns=columns, raw=lambda position: _line(values[int(at[position])]), rejects=rejects)


def _together(parts: Sequence[ValidatedRows]) -> ValidatedRows:
    return ValidatedRows(
        read=sum(part.read for part in parts),
        accepted=pl.concat([part.accepted for part in parts]),
        lines=np.concatenate([part.lines for part in parts]),
        rejects=sorted((reject for part in parts for reject in part.rejects), key=lambda reject: reject.line),
        untimed=sum(part.untimed for part in parts),
        without_zone=sum(part.without_zone for part in parts),
    )


def _decodes(text: bytes) -> bool:
    # The line breaks between messages keep halves of a character in two messages from passing as one.
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


_EMPTY = "the message is empty"


def _fault(value: bytes | None, limit: int) -> str | None:
    if value is None:
        return "the message has no value (a tombstone); a column whose source is kafka_tombstone takes it as an event"
    if len(value) > limit:
        return f"the message has {len(value):,} bytes, more than its stream's limit of {limit:,}"
    if not value.strip(_BLANK):
        return _EMPTY
    if b"\0" in value:
        return "the message holds NUL bytes: it is binary, or UTF-16"
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"the message is not UTF-8: {error.reason} at byte {error.start}"
    return None


def _line(value: bytes | None) -> str:
    return _shown(value).removesuffix("\r")


def _shown(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "backslashreplace")
