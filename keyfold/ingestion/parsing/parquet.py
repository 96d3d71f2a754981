"""Read Parquet files batch by batch. Row numbers are used as line numbers."""

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.parsing.rows import Rows
from keyfold.ingestion.parsing.text import UnreadableFileError, in_bytes, row_sizes
from keyfold.lakehouse.foreign import finer_time
from keyfold.storage.place import Place

if TYPE_CHECKING:
    import pyarrow.parquet as pq

BATCH_ROWS = 100_000
BATCH_BYTES = 64 << 20
"""Approximate bytes of values that are read at once."""

_BUFFER = 1 << 20

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 1}
"""Minimum bytes of a value by physical type, except for types with a declared length."""


def read_parquet(
    schema: pa.Schema, path: Place, landing: Place | None, *, max_bytes: int, max_row: int
) -> Iterator[Rows]:
    """Read a Parquet file.

    Args:
        schema: the raw columns of the stream.
        path: the file.
        landing: the landing folder, which no link may lead out of; None if links may lead anywhere.
        max_bytes: maximum bytes of all values, decompressed, with repeated values counted in each row.
        max_row: maximum bytes of a row.

    Raises:
        UnreadableFileError: the file has a column of the schema twice, or exceeds a limit.
        OSError, pyarrow.ArrowException: the file is broken, or a link leads out of the folder.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes 0.1 s

    with path.open_for_reading(within=landing) as opened:
        # An empty file has no rows, as in other formats. Parquet's reader would call it broken.
        if not opened.seek(0, os.SEEK_END):
            return
        metadata = pq.read_metadata(opened)
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        sizes = [_expanded(metadata, at) for at in range(metadata.num_row_groups)]
        # Check the footer before a page is decompressed, since a few kilobytes may expand to more than the memory.
        if sum(sizes) > max_bytes:
            raise _too_much(max_bytes)
        if finer := finer_time(opened, metadata):
            raise UnreadableFileError(f"the file has a time that is finer than a microsecond: {finer}")
        file = pq.ParquetFile(
            opened,
            metadata=metadata,
            # Without a buffer size, whole columns of a row group are read at once.
            buffer_size=_BUFFER,
            # Keep dictionaries: a long value stored once must not be copied to each row before its size is checked.
            read_dictionary=_with_dictionary(metadata),
            # By default Arrow reads INT96 times as nanoseconds, and silently wraps those after 2262.
            coerce_int96_timestamp_unit="us",
        )
        names = file.schema_arrow.names
        twice = sorted({name for name in schema.names if names.count(name) > 1})
        if twice:
            raise UnreadableFileError(f"the file has the column {', '.join(twice)} twice")
        if why := misfit(schema, file.schema_arrow):
            raise UnreadableFileError(why)
        # Rows per batch, so that a batch has about `BATCH_BYTES` even in the row group with the largest rows.
        counts = [
            BATCH_BYTES * group.num_rows // size for group, size in zip(groups, sizes, strict=True) if group.num_rows
        ]
        rows_before = expanded = 0
        for batch in file.iter_batches(max(1, min([BATCH_ROWS, *counts])), use_threads=False):
            # A corrupt file may have texts that are not UTF-8, or lengths beyond its bytes, on which Polars relies.
            batch.validate(full=True)
            for part, size in _parts(batch, rows_before, max_row):
                # The footer does not say how long dictionary values are that many rows share, so sum up while reading.
                expanded += size
                if expanded > max_bytes:
                    raise _too_much(max_bytes)
                lines = np.arange(rows_before + 1, rows_before + 1 + part.num_rows, dtype=np.int64)
                columns = pa.table([_plainly(column) for column in part.columns], names=part.schema.names)
                yield Rows(columns, lines, _Raw(part))
                rows_before += part.num_rows


def misfit(wanted: pa.Schema, schema: pa.Schema) -> str | None:
    """Say why a file's columns do not fit the schema `wanted`; None if they do."""
    pairs = [(field, schema.get_field_index(field.name)) for field in wanted]
    faults = (_misfit(field.type, schema.field(at).type, field.name) for field, at in pairs if at >= 0)
    return next((why for why in faults if why), None)


def _misfit(wanted: pa.DataType, kind: pa.DataType, name: str) -> str | None:
    """Say which column lacks objects or lists that the schema's paths need; None if none does."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_null(kind):
        return None
    if types.is_struct(wanted):
        if not types.is_struct(kind):
            return f"the file's column {name} holds {kind} and not objects, but the stream reads fields of it"
        inside = [(field.type, kind.get_field_index(field.name), f"{name}.{field.name}") for field in wanted]
        return next(
            (why for inner, at, path in inside if at >= 0 and (why := _misfit(inner, kind[at].type, path))), None
        )
    if types.is_list(wanted) and not types.is_string(wanted.value_type):
        if not (types.is_list(kind) or types.is_large_list(kind)):
            return f"the file's column {name} holds {kind} and not lists, but the stream reads elements of it"
        return _misfit(wanted.value_type, kind.value_type, f"{name}[]")
    return None


def _too_much(max_bytes: int) -> UnreadableFileError:
    return UnreadableFileError(f"the file holds more than {in_bytes(max_bytes)}, which is its limit")


def _expanded(metadata: "pq.FileMetaData", group: int) -> int:
    """Return bytes of a row group's values, counted in each row, as far as the footer says: at least one byte for a text."""
    row_group = metadata.row_group(group)
    columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    values = [row_group.column(at).num_values for at in range(metadata.num_columns)]
    widths = [_WIDTHS.get(column.physical_type, column.length) for column in columns]
    return max(row_group.total_byte_size, sum(count * width for count, width in zip(values, widths, strict=True)), 1)


def _with_dictionary(metadata: "pq.FileMetaData") -> list[str]:
    """Return the columns of text or bytes that have a dictionary."""
    columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    of_bytes = [
        at
        for at, column in enumerate(columns)
        if column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL"
    ]
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    return [columns[at].path for at in of_bytes if any(group.column(at).has_dictionary_page for group in groups)]


def _parts(batch: pa.RecordBatch, rows_before: int, max_row: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Cut a batch into parts of at most `BATCH_BYTES`, with values counted in each row; yield each part with its bytes."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        sizes += row_sizes(column)
    if len(too_long := np.flatnonzero(sizes > max_row)):
        row = rows_before + int(too_long[0]) + 1
        raise UnreadableFileError(
            f"the file has a row of more than {in_bytes(max_row)}, which is its limit: row {row:,}"
        )
    ends = np.cumsum(sizes)
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        # At least one row, even if it is larger.
        stop = max(int(np.searchsorted(ends, before + BATCH_BYTES, side="right")), start + 1)
        yield batch.slice(start, stop - start), int(ends[stop - 1]) - before
        start = stop


def _plainly(column: pa.Array) -> pa.Array:
    """Convert an array to a plain type: no dictionary, extension or list view."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if isinstance(column, pa.DictionaryArray):
        return column.dictionary_decode()
    if types.is_list_view(column.type) or types.is_large_list_view(column.type):
        return column.cast(pa.large_list(column.type.value_type))
    return column


class _Raw:
    """The raw text of a row: its values as JSON."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __call__(self, position: int) -> str:
        row = {name: _plain(self._batch.column(at)[position]) for at, name in enumerate(self._batch.schema.names)}
        return json.dumps(row, ensure_ascii=False, default=str)


def _plain(scalar: pa.Scalar) -> object:
    if types.is_temporal(scalar.type) and scalar.is_valid:
        return scalar.cast(pa.string()).as_py()  # Arrow holds years that Python's datetime does not
    return scalar.as_py()
