"""Parse files of any format, and Kafka messages (one JSON object each), into validated rows.

A file that cannot be read is rejected as a whole. Of messages, such a fault (binary, not UTF-8, too long) rejects the message
alone. Blank messages and messages without a value are rejected too, so that every message is accounted for.
"""

import errno
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

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
from keyfold.ingestion.parsing.json_lines import read_json, read_objects, read_values
from keyfold.ingestion.parsing.mapping import path_value
from keyfold.ingestion.parsing.parquet import read_parquet
from keyfold.ingestion.parsing.rows import Reject, Rows, ValidatedRows, none_accepted, validate_rows
from keyfold.ingestion.parsing.text import READABLE, UnreadableFileError, file_type, read_chunks
from keyfold.storage.object_path import StoreError
from keyfold.storage.place import Place
from keyfold.stream import Stream
from keyfold.stream.source import TEXT_OF, name_of

_FILE_FAULTS = {
    *(None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
}
"""Error numbers of faulty files (None: errors of Arrow and gzip). Others, such as a full or failing disk, are not the file's
fault: they fail the run, and the next run reads the file again."""


def parse_file(
    stream: Stream,
    path: Place,
    arrived: datetime,
    landing: Place | None = None,
    oldest: datetime | None = None,
) -> Iterator[ValidatedRows]:
    """Parse a file, chunk by chunk.

    Args:
        stream: the stream of its rows.
        path: the file, whose extension determines its format.
        arrived: when it was admitted (UTC).
        landing: the landing folder, which no link may lead out of. Columns taken from the path take what is below it; without
            it, the file's name.
        oldest: the oldest event time that is accepted; None if any is.

    Raises:
        UnreadableFileError: the file is rejected as a whole; rows yielded before do not count.
    """
    value, beginning = path_value(path, landing), Beginning()
    with faults_of_files():
        for rows in _read(stream, path, landing):
            if rows.columns.num_rows:
                parts = (validate_rows(stream, part, arrived, value, oldest) for part in exploded(stream, rows))
            else:
                parts = (none_accepted(stream, rows),)
            yield from beginning.judged(parts)


def parse_file_safely(
    stream: Stream, path: Place, arrived: datetime, landing: Place, oldest: datetime | None
) -> Iterator[ValidatedRows]:
    """Parse a file as `parse_file` does; a binary file (Parquet) in a child process.

    Compressed text needs none: zlib and the checksum of gzip find what has flipped.

    Raises:
        UnreadableFileError: the file is rejected as a whole; rows yielded before do not count.
        ChildEndedError: the child ended, or did not answer.
        OSError: a disk or store fails.
    """
    arguments = (stream, path, arrived, landing, oldest)
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


def _read(stream: Stream, path: Place, landing: Place | None) -> Iterator[Rows]:
    """Read the rows of a stream."""
    form = file_type(path).format
    if form is None:
        raise UnreadableFileError(f"the file's extension is not one that ingest reads ({READABLE})")
    if form == "parquet":
        return read_parquet(
            stream.raw_schema, path, landing, max_bytes=stream.max_file_bytes, max_row=stream.max_line_bytes
        )
    text = read_chunks(path, landing, max_line=stream.max_line_bytes, max_bytes=stream.max_file_bytes)
    if form == "json":
        return read_json(stream.raw_schema, text, stream.missing)
    if unfit := _unfit_for_csv(stream):
        raise UnreadableFileError(unfit)
    names = dict.fromkeys(name.removesuffix(TEXT_OF) for name in stream.raw_names)
    return read_csv(pa.schema([(name, pa.string()) for name in names]), text)


def _unfit_for_csv(stream: Stream) -> str:
    """Say why a stream cannot have rows of CSV; empty if it can."""
    if stream.list_path is None and TEXT_OF not in stream.raw_names:
        return ""
    what = "the text of a whole JSON line" if stream.list_path is None else f"{name_of(stream.list_path)}[]"
    return f"the file is CSV, which has no lists or objects, but stream {stream.name} needs {what}"


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
    faults = faults or {}
    own = {} if beside is None else {name: beside.column(name) for name in beside.column_names}
    schema = pa.schema([field for field in stream.raw_schema if field.name not in own])
    rows = None if faults else _read_at_once(stream, schema, values, numbers)
    if rows is None:
        rows = _read_one_by_one(stream, schema, values, numbers, faults)
    # As numbers increase, a search for a row's number finds the position of its message.
    columns, at = rows.columns, np.searchsorted(numbers, rows.lines)
    for name, column in own.items():
        columns = columns.append_column(name, column.take(pa.array(at)))
    parts = []
    for part in exploded(stream, replace(rows, columns=columns)):
        at = np.searchsorted(numbers, part.lines)
        arrivals = arrived if isinstance(arrived, datetime) else arrived.gather(at)
        parts.append(validate_rows(stream, part, arrivals, path, oldest))
    return parts[0] if len(parts) == 1 else _together(parts)


def _together(parts: Sequence[ValidatedRows]) -> ValidatedRows:
    return ValidatedRows(
        read=sum(part.read for part in parts),
        accepted=pl.concat([part.accepted for part in parts]),
        lines=np.concatenate([part.lines for part in parts]),
        rejects=[reject for part in parts for reject in part.rejects],
        untimed=sum(part.untimed for part in parts),
    )


def _read_at_once(stream: Stream, schema: pa.Schema, values: Sequence[bytes | None], numbers: Numbers) -> Rows | None:
    """Read all messages at once; None if one is unusual and they must be read one by one."""
    if not values or None in values:
        return None
    text = b"\n".join(values)  # pyright: ignore[reportArgumentType, reportCallIssue] - none is None
    # If a message has line breaks, lines and messages are not the same.
    if text.count(b"\n") != len(values) - 1 or b"\0" in text or not (text.isascii() or _decodes(text)):
        return None
    limit = stream.max_line_bytes
    if len(text) > limit and max(map(len, values)) > limit:  # pyright: ignore[reportArgumentType]
        return None
    table = read_objects(schema, text, len(values))
    return None if table is None else Rows(table, numbers, lambda position: _shown(values[position]))


def _read_one_by_one(
    stream: Stream, schema: pa.Schema, values: Sequence[bytes | None], numbers: Numbers, faults: Mapping[int, str]
) -> Rows:
    """Check each message, and read those without a fault."""
    rejects, good = list[Reject](), dict[int, bytes]()
    for at, value in enumerate(values):
        if (reason := faults.get(at) or _reason(value, stream.max_line_bytes)) or value is None:
            rejects.append(Reject(_shown(value), int(numbers[at]), reason or ""))
        else:
            good[at] = value
    rows = read_values(schema, [*good.values()], numbers[[*good]], stream.missing)
    return replace(rows, rejects=[*rows.rejects, *rejects])


def _decodes(text: bytes) -> bool:
    # The line breaks between messages keep halves of a character in two messages from passing as one.
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _reason(value: bytes | None, limit: int) -> str | None:
    if value is None:
        return "the message has no value (a tombstone); a column whose source is kafka_tombstone takes it as an event"
    if len(value) > limit:
        return f"the message has {len(value):,} bytes, more than its stream's limit of {limit:,}"
    if not value.strip(_BLANK):
        return "the message is empty"
    if b"\0" in value:
        return "the message holds NUL bytes: it is binary, or UTF-16"
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"the message is not UTF-8: {error.reason} at byte {error.start}"
    return None


def _shown(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "backslashreplace")
