"""Parse files of any format into validated rows. A file that cannot be read is rejected as a whole."""

import errno
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pyarrow as pa
from polars.exceptions import PanicException

from keyfold.errors import first_line
from keyfold.ingestion.formats import READABLE, file_type
from keyfold.ingestion.parsing.csv_lines import read_csv
from keyfold.ingestion.parsing.exploding import exploded
from keyfold.ingestion.parsing.json_lines import read_json
from keyfold.ingestion.parsing.mapping import path_value
from keyfold.ingestion.parsing.parquet import read_parquet
from keyfold.ingestion.parsing.rows import Rows, ValidatedRows, none_accepted, validate_rows
from keyfold.ingestion.parsing.text import UnreadableFileError, read_chunks
from keyfold.storage.object_path import StoreError
from keyfold.storage.place import Place
from keyfold.stream import Stream
from keyfold.stream.raw_paths import TEXT_OF, name_of

_FILE_FAULTS = {None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
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
        landing: the folder to which the path is relative, for columns taken from it; without it, the file's name is used.
        oldest: the oldest event time that is accepted; None if any is.

    Raises:
        UnreadableFileError: the file is rejected as a whole; rows yielded before do not count.
    """
    value = path_value(path, landing)
    with _faults_of_files():
        for rows in _read(stream, path):
            if not rows.columns.num_rows:
                yield none_accepted(stream, rows)
                continue
            for part in exploded(stream, rows):
                yield validate_rows(stream, part, arrived, value, oldest)


@contextmanager
def _faults_of_files() -> Iterator[None]:
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


def _read(stream: Stream, path: Place) -> Iterator[Rows]:
    """Read the rows of a stream."""
    form = file_type(path).format
    if form is None:
        raise UnreadableFileError(f"the file's extension is not one that ingest reads ({READABLE})")
    if form == "parquet":
        return read_parquet(stream.raw_schema, path, stream.max_file_bytes, stream.max_line_bytes)
    text = read_chunks(path, max_line=stream.max_line_bytes, max_bytes=stream.max_file_bytes)
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
