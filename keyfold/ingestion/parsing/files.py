"""Files to validated rows, whatever their format; a file that cannot be read is rejected as a whole."""

import errno
import zlib
from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa

from keyfold.ingestion.formats import READABLE, file_type
from keyfold.ingestion.parsing.csv_lines import read_csv
from keyfold.ingestion.parsing.exploding import exploded
from keyfold.ingestion.parsing.json_lines import read_json
from keyfold.ingestion.parsing.mapping import path_value
from keyfold.ingestion.parsing.parquet import read_parquet
from keyfold.ingestion.parsing.rows import Rows, ValidatedRows, validate_rows
from keyfold.ingestion.parsing.text import UnreadableFileError, read_chunks
from keyfold.raw_paths import TEXT_OF, name_of
from keyfold.storage.object_path import StoreError
from keyfold.storage.place import Place
from keyfold.stream import Stream

_FILE_FAULTS = {None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
"""What an OSError says when the fault is the file's; Arrow and gzip set no number. A full or failing disk is not the
file's fault: it fails the run, so that the next one reads the file again."""


def parse_file(
    stream: Stream,
    path: Place,
    arrived: datetime,
    landing: Place | None = None,
    oldest: datetime | None = None,
) -> Iterator[ValidatedRows]:
    """Parse one file, chunk by chunk.

    Args:
        stream: what its rows should be.
        path: the file; its ending tells its format.
        arrived: when it was admitted (UTC).
        landing: the folder below which its path may be a value; without it, its name is.
        oldest: the least event time that is accepted; None where any is.

    Raises:
        UnreadableFileError: the file is rejected as a whole; rows that came before do not count.
    """
    value = path_value(path, landing)
    try:
        for rows in _read(stream, path):
            for part in exploded(stream, rows):
                yield validate_rows(stream, part, arrived, value, oldest)
    # Also an ArrowException: memory that ran out is not the file's fault, and must not reject it.
    except pa.ArrowMemoryError:
        raise
    except OSError as error:
        if isinstance(error, StoreError) or error.errno not in _FILE_FAULTS:
            raise
        raise UnreadableFileError(f"the file cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error, pa.ArrowException) as error:
        raise UnreadableFileError(f"the file cannot be read: {error}") from None


def _read(stream: Stream, path: Place) -> Iterator[Rows]:
    schema = stream.raw_schema
    found = file_type(path).format
    if found == "parquet":
        yield from read_parquet(schema, path, stream.max_file_bytes, stream.max_line_bytes)
        return
    if found is None:
        raise UnreadableFileError(f"the file's ending is none that ingest knows ({READABLE})")
    text = read_chunks(path, max_line=stream.max_line_bytes, max_bytes=stream.max_file_bytes)
    yield from read_csv(_flat(stream), text) if found == "csv" else read_json(schema, text, missing=stream.missing)


def _flat(stream: Stream) -> pa.Schema:
    """The columns that CSV may have: those of the names themselves.

    Raises:
        UnreadableFileError: the stream takes what no CSV has.
    """
    if stream.list_path is not None or TEXT_OF in stream.raw_names:
        what = "the text of a whole JSON line" if stream.list_path is None else f"{name_of(stream.list_path)}[]"
        raise UnreadableFileError(
            f"the file is CSV, which has no lists or objects, and stream {stream.name} takes {what}"
        )
    return pa.schema([(name.removesuffix(TEXT_OF), pa.string()) for name in stream.raw_names])
