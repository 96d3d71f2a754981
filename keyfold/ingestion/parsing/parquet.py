"""Reads Parquet files, batch by batch; a row's number stands for its line."""

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from keyfold.ingestion.parsing.row_sizes import row_sizes
from keyfold.ingestion.parsing.rows import Rows
from keyfold.ingestion.parsing.text import UnreadableFileError, in_bytes
from keyfold.lakehouse.files import open_for_reading
from keyfold.lakehouse.int96 import finer_time
from keyfold.storage.place import Place

BATCH_ROWS = 100_000
BATCH_BYTES = 64 << 20
"""Bytes of values that are read at once, about."""

_BUFFER = 1 << 20

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 1}
"""Bytes of a value, by its physical type: those of a fixed length are not here."""


def read_parquet(schema: pa.Schema, path: Place, max_bytes: int, max_row: int) -> Iterator[Rows]:
    """Read a whole Parquet file of at most `max_bytes`, decompressed and with its values in each row, and rows of at most `max_row`.

    Raises:
        UnreadableFileError: it has a column of the schema twice, or holds more than it may.
        OSError, pyarrow.ArrowException: it is broken.
    """
    # A file without rows, as in the other formats; Parquet itself would call it broken.
    if not path.stat().st_size:
        return
    with open_for_reading(path) as opened:
        metadata = pq.read_metadata(opened)
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        sizes = [_expanded(metadata, at) for at in range(metadata.num_row_groups)]
        # By the footer, before a page is decompressed: a few kilobytes may unpack to more than there is memory.
        if sum(sizes) > max_bytes:
            raise _too_much(max_bytes)
        if found := finer_time(opened, metadata):
            raise UnreadableFileError(f"the file has a time that is finer than a microsecond: {found}")
        file = pq.ParquetFile(
            opened,
            metadata=metadata,
            # Else whole columns of a row group are read at once.
            buffer_size=_BUFFER,
            # A long value that is stored once must not become one a row before its size is known.
            read_dictionary=_with_dictionary(metadata),
            # By default Arrow takes Spark's old times for nanoseconds, and wraps those past 2262 to others in silence.
            coerce_int96_timestamp_unit="us",
        )
        names = file.schema_arrow.names
        twice = sorted({name for name in schema.names if names.count(name) > 1})
        if twice:
            raise UnreadableFileError(f"the file has the column {', '.join(twice)} twice")
        if why := misfit(schema, file.schema_arrow):
            raise UnreadableFileError(why)
        counts = [
            BATCH_BYTES * group.num_rows // size for group, size in zip(groups, sizes, strict=True) if group.num_rows
        ]
        done = expanded = 0
        for batch in file.iter_batches(max(1, min([BATCH_ROWS, *counts])), use_threads=False):
            for part, size in _parts(batch, done, max_row):
                # What the footer does not say: how long a text is that is stored once and stands in many rows.
                expanded += size
                if expanded > max_bytes:
                    raise _too_much(max_bytes)
                lines = np.arange(done + 1, done + 1 + part.num_rows, dtype=np.int64)
                columns = pa.table([_plainly(column) for column in part.columns], names=part.schema.names)
                yield Rows(columns, lines, _Raw(part))
                done += part.num_rows


def misfit(wanted: pa.Schema, found: pa.Schema) -> str | None:
    """Why a file's columns cannot be read as those that are wanted; None where they can."""
    pairs = [(field, found.get_field_index(field.name)) for field in wanted]
    faults = (_misfit(field.type, found.field(at).type, field.name) for field, at in pairs if at >= 0)
    return next((why for why in faults if why), None)


def _misfit(wanted: pa.DataType, found: pa.DataType, name: str) -> str | None:
    """Why paths lead nowhere in a column, if it holds no objects or lists where they have steps."""
    found = found.value_type if types.is_dictionary(found) else found
    if types.is_struct(wanted):
        if not types.is_struct(found):
            return f"the file's column {name} holds no objects but {found}, and fields of it are read"
        inside = [(one.type, found.get_field_index(one.name), f"{name}.{one.name}") for one in wanted]
        return next((why for kind, at, one in inside if at >= 0 and (why := _misfit(kind, found[at].type, one))), None)
    if types.is_list(wanted) and not types.is_string(wanted.value_type):
        if not (types.is_list(found) or types.is_large_list(found)):
            return f"the file's column {name} holds no lists but {found}, and elements of it are read"
        return _misfit(wanted.value_type, found.value_type, f"{name}[]")
    return None


def _too_much(max_bytes: int) -> UnreadableFileError:
    return UnreadableFileError(f"the file holds more than {in_bytes(max_bytes)}, which is its limit")


def _expanded(metadata: pq.FileMetaData, group: int) -> int:
    """Bytes of a row group's values, each in its row, as far as its footer says: of a text one at least."""
    found = metadata.row_group(group)
    columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    values = [found.column(at).num_values for at in range(metadata.num_columns)]
    widths = [_WIDTHS.get(column.physical_type, column.length) for column in columns]
    return max(found.total_byte_size, sum(count * width for count, width in zip(values, widths, strict=True)), 1)


def _with_dictionary(metadata: pq.FileMetaData) -> list[str]:
    """The columns of text, or of bytes, that have their values stored once."""
    columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    of_bytes = [
        at
        for at, column in enumerate(columns)
        if column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL"
    ]
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    return [columns[at].path for at in of_bytes if any(group.column(at).has_dictionary_page for group in groups)]


def _parts(batch: pa.RecordBatch, done: int, max_row: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The batch, cut where its values are more than `BATCH_BYTES` once each row has its own; each part with its bytes."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        sizes += row_sizes(column)
    if len(too_long := np.flatnonzero(sizes > max_row)):
        row = done + int(too_long[0]) + 1
        raise UnreadableFileError(
            f"the file has a row of more than {in_bytes(max_row)}, which is its limit: row {row:,}"
        )
    ends = np.cumsum(sizes)
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + BATCH_BYTES, side="right")), start + 1)
        yield batch.slice(start, stop - start), int(ends[stop - 1]) - before
        start = stop


def _plainly(column: pa.Array) -> pa.Array:
    """The same values in a type that says nothing of how they are stored."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if isinstance(column, pa.DictionaryArray):
        return column.dictionary_decode()
    if types.is_list_view(column.type) or types.is_large_list_view(column.type):
        return column.cast(pa.large_list(column.type.value_type))
    return column


class _Raw:
    """A row as JSON text, for want of a text of its own."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __call__(self, position: int) -> str:
        row = {name: _plain(self._batch.column(at)[position]) for at, name in enumerate(self._batch.schema.names)}
        return json.dumps(row, ensure_ascii=False, default=str)


def _plain(scalar: pa.Scalar) -> object:
    if types.is_temporal(scalar.type) and scalar.is_valid:
        return scalar.cast(pa.string()).as_py()  # Arrow holds years that Python's datetime does not
    return scalar.as_py()
