"""Compute the bytes of each row of a column."""

import numpy as np
import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.parsing.rows import Lines


def row_sizes(column: pa.Array) -> Lines:
    """Return the bytes of each row's value. Dictionary values are counted in each row."""
    import pyarrow.compute as pc  # noqa: PLC0415 - takes 50 ms

    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if isinstance(column, pa.DictionaryArray):
        of_value = row_sizes(column.dictionary)
        return of_value[column.indices.fill_null(0).to_numpy(zero_copy_only=False)] if len(of_value) else _none(column)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return pc.call_function("binary_length", [column]).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        # `values` has those before and after a slice too; the offsets select the slice's own.
        offsets = column.offsets.to_numpy()
        values = column.keys if types.is_map(kind) else column.values
        inner = row_sizes(values) + row_sizes(column.items) if types.is_map(kind) else row_sizes(values)
        sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(inner)])
        return sums[offsets[1:]] - sums[offsets[:-1]]
    if types.is_struct(kind):
        return sum((row_sizes(field) for field in column.flatten()), _none(column))
    return _none(column) + 8  # numbers and times; larger fixed-size values are bounded by their pages


def _none(column: pa.Array) -> Lines:
    return np.zeros(len(column), dtype=np.int64)
