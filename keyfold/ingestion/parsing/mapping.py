"""Map raw columns to event columns: rename them, fill in the path, and make texts that mean a missing value NULL."""

from pathlib import PurePath

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.formats import file_type
from keyfold.ingestion.parsing.casting import to_series
from keyfold.ingestion.parsing.declared_times import to_iso_times
from keyfold.ingestion.parsing.nested import raw_values
from keyfold.storage.place import Place, path_below
from keyfold.stream import Stream


def path_value(path: Place, landing: Place | None) -> str:
    """Return the value of a file's path: relative to its landing folder, without extensions (`web/cpu.csv.gz`: `web/cpu`)."""
    inside = (path_below(path, landing) if landing is not None else None) or PurePath(path.name)
    return inside.with_name(file_type(inside).stem).as_posix()


def map_columns(stream: Stream, raw: pa.Table, path: str | None) -> dict[str, list[pa.ChunkedArray]]:
    """Return the existing sources of each of the stream's columns, in order of precedence, not yet cast to its types.

    Args:
        stream: the stream, which declares the sources of its columns.
        raw: the raw columns.
        path: the value of columns taken from the path; None if the rows are not from a file.
    """
    columns: dict[str, list[pa.ChunkedArray]] = {}
    for field in stream.schema:
        source = stream.source(field.name)
        candidates = [_present(one, stream.missing) for name in source.raw_names for one in raw_values(raw, name)]
        if source.time:
            candidates = [_iso_times(one, source.time) for one in candidates]
        if source.path and path is not None:
            candidates.append(pa.chunked_array([pa.repeat(pa.scalar(path), raw.num_rows)]))
        columns[field.name] = candidates
    return columns


def _present(column: pa.ChunkedArray, missing: tuple[str, ...]) -> pa.ChunkedArray:
    """Replace texts that mean a missing value by NULL."""
    if not missing or not (types.is_string(column.type) or types.is_large_string(column.type)):
        return column
    values = pl.Series(pl.from_arrow(column))
    nothing = values.str.strip_chars().is_in(list(missing))
    if not nothing.any():
        return column
    return pa.chunked_array([values.set(nothing.fill_null(value=False), None).to_arrow()])


def _iso_times(column: pa.ChunkedArray, shape: str) -> pa.ChunkedArray:
    values = to_series(column)
    if values.dtype.is_float():
        values = values.fill_nan(None)
    # Values that are times already, as in Parquet, need no format.
    return column if values.dtype.is_temporal() else pa.chunked_array([to_iso_times(values, shape).to_arrow()])
