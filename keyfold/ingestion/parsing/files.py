"""Parse files of any format into validated rows. A file that cannot be read is rejected as a whole."""

import errno
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

import pyarrow as pa

from keyfold.ingestion.formats import READABLE, file_type
from keyfold.ingestion.parsing.csv_lines import read_csv
from keyfold.ingestion.parsing.exploding import exploded
from keyfold.ingestion.parsing.json_lines import read_json
from keyfold.ingestion.parsing.mapping import path_value
from keyfold.ingestion.parsing.parquet import misfit, read_parquet
from keyfold.ingestion.parsing.routing import Routes, all_rejected, route_lines, route_rows
from keyfold.ingestion.parsing.rows import Rows, ValidatedRows, none_accepted, validate_rows
from keyfold.ingestion.parsing.text import UnreadableFileError, read_chunks
from keyfold.storage.object_path import StoreError
from keyfold.storage.place import Place
from keyfold.stream import Stream
from keyfold.stream.raw_paths import TEXT_OF, name_of, path_of

_FILE_FAULTS = {None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
"""Error numbers of faulty files (None: errors of Arrow and gzip). Others, such as a full or failing disk, are not the file's
fault: they fail the run, and the next run reads the file again."""


def parse_file(
    stream: Stream,
    path: Place,
    arrived: datetime,
    landing: Place | None = None,
) -> Iterator[ValidatedRows]:
    """Parse a file, chunk by chunk.

    Args:
        stream: the stream of its rows.
        path: the file, whose extension determines its format.
        arrived: when it was admitted (UTC).
        landing: the folder to which the path is relative, for columns taken from it; without it, the file's name is used.

    Raises:
        UnreadableFileError: the file is rejected as a whole; rows yielded before do not count.
    """
    for _, rows in parse_shared_file([stream], {stream.name: None}, path, arrived, landing):
        yield rows


def parse_shared_file(
    streams: Sequence[Stream],
    wanted: Mapping[str, datetime | None],
    path: Place,
    arrived: datetime,
    landing: Place | None = None,
) -> Iterator[tuple[str, ValidatedRows]]:
    """Parse a file of a landing that streams may share, chunk by chunk, and yield rows with the names of their streams.

    Args:
        streams: the streams that share the landing, its own first, which also gets the rejects that belong to no stream.
        wanted: the streams whose rows are needed, each with the oldest event time that is accepted.
        path, arrived, landing: as for `parse_file`.

    Raises:
        UnreadableFileError: as `parse_file`.
    """
    value = path_value(path, landing)
    with _faults_of_files():
        for stream, rows in _route(streams, wanted, path):
            if stream.name not in wanted:
                continue
            if not rows.columns.num_rows:
                yield stream.name, none_accepted(stream, rows)
                continue
            for part in exploded(stream, rows):
                yield stream.name, validate_rows(stream, part, arrived, value, wanted[stream.name])


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


def _read(stream: Stream, path: Place) -> Iterator[Rows]:
    schema = stream.raw_schema
    form = file_type(path).format
    if form == "parquet":
        yield from read_parquet(schema, path, stream.max_file_bytes, stream.max_line_bytes)
        return
    if form is None:
        raise UnreadableFileError(f"the file's extension is not one that ingest reads ({READABLE})")
    text = read_chunks(path, max_line=stream.max_line_bytes, max_bytes=stream.max_file_bytes)
    yield from read_csv(_flat(stream), text) if form == "csv" else read_json(schema, text, missing=stream.missing)


def _route(
    streams: Sequence[Stream], wanted: Mapping[str, datetime | None], path: Place
) -> Iterator[tuple[Stream, Rows]]:
    """Read the file once, and assign its rows to streams."""
    if len(streams) == 1:
        yield from ((streams[0], rows) for rows in _read(streams[0], path))
        return
    routes, form, any_of = Routes(streams), file_type(path).format, streams[0]
    if form is None:
        raise UnreadableFileError(f"the file's extension is not one that ingest reads ({READABLE})")
    if form == "parquet":
        # Names only: each stream has its own types, which `misfit` compares below.
        names = {path_of(name)[0]: None for name in routes.columns} | {
            name: None for one in streams for name in one.raw_schema.names
        }
        schema = pa.schema([(str(name), pa.null()) for name in names])
        for rows in read_parquet(schema, path, any_of.max_file_bytes, any_of.max_line_bytes):
            for stream, own in route_rows(routes, rows, wanted):
                why = misfit(stream.raw_schema, rows.columns.schema)
                yield stream, all_rejected(own, why) if why and own.columns.num_rows else own
        return
    text = read_chunks(path, max_line=any_of.max_line_bytes, max_bytes=any_of.max_file_bytes)
    if form == "json":
        yield from route_lines(routes, text, wanted)
        return
    unfit = {one.name: why for one in streams if (why := _unfit_for_csv(one))}
    flat = [name for one in streams if one.name not in unfit for name in _flat(one).names]
    schema = pa.schema([(name, pa.string()) for name in dict.fromkeys((*flat, *routes.columns))])
    for rows in read_csv(schema, text):
        for stream, own in route_rows(routes, rows, wanted):
            yield (
                stream,
                all_rejected(own, unfit[stream.name]) if stream.name in unfit and own.columns.num_rows else own,
            )


def _flat(stream: Stream) -> pa.Schema:
    """Return the schema for reading CSV: raw names, not paths.

    Raises:
        UnreadableFileError: the stream needs lists or objects, which CSV does not have.
    """
    if why := _unfit_for_csv(stream):
        raise UnreadableFileError(why)
    return pa.schema([(name.removesuffix(TEXT_OF), pa.string()) for name in stream.raw_names])


def _unfit_for_csv(stream: Stream) -> str | None:
    if stream.list_path is None and TEXT_OF not in stream.raw_names:
        return None
    what = "the text of a whole JSON line" if stream.list_path is None else f"{name_of(stream.list_path)}[]"
    return f"the file is CSV, which has no lists or objects, but stream {stream.name} needs {what}"
