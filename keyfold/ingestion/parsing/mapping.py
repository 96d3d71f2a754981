"""Map raw columns to event columns: rename them, fill in the path, and make texts that mean a missing value NULL."""

from pathlib import PurePath

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.parsing.casting import to_series
from keyfold.ingestion.parsing.text import file_type
from keyfold.storage.place import Place, path_below
from keyfold.stream import Stream
from keyfold.stream.source import TEXT_OF, Path, path_of


def raw_values(raw: pa.Table, name: str) -> list[pa.ChunkedArray]:
    """Return the raw columns for a name: columns with that name, then the values at its path."""
    columns = [raw.column(at) for at in raw.schema.get_all_field_indices(name)]
    if name.endswith(TEXT_OF) and not columns:
        # Formats other than JSON have no original text, so the values are encoded.
        return [as_json(column) for column in raw_values(raw, name.removesuffix(TEXT_OF))]
    path = path_of(name)
    inside = None if len(path) == 1 else value_at(raw, path)
    return columns if inside is None else [*columns, inside]


def value_at(raw: pa.Table, path: Path) -> pa.ChunkedArray | None:
    """Return the values at a path without `[]`; None if no row can have it."""
    import pyarrow.compute as pc  # noqa: PLC0415 - takes 50 ms

    if path[0] not in raw.column_names:
        return None
    column = raw.column(path[0])
    for step in path[1:]:
        if isinstance(step, str):
            if not types.is_struct(column.type) or column.type.get_field_index(step) < 0:
                return None
            column = pc.call_function("struct_field", [column], pc.StructFieldOptions([step]))
        elif isinstance(step, int):
            if not (types.is_list(column.type) or types.is_large_list(column.type)):
                return None
            column = pa.chunked_array([to_series(column).list.get(step, null_on_oob=True).to_arrow()])
    return column


def as_json(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Encode values as JSON text. Texts stay unchanged: in formats without objects they hold JSON already."""
    values = to_series(column)
    if values.dtype == pl.String:
        return pa.chunked_array([values.to_arrow()])
    texts = values.alias("").to_frame().to_struct("").struct.json_encode().str.slice(len('{"":')).str.head(-1)
    return pa.chunked_array([texts.set(values.is_null(), None).to_arrow()])


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
        candidates = [_present(column, stream.missing) for name in source.raw_names for column in raw_values(raw, name)]
        if source.path and path is not None:
            candidates.append(pa.chunked_array([pa.repeat(pa.scalar(path), raw.num_rows)]))
        columns[field.name] = candidates
    return columns


def _present(column: pa.ChunkedArray, missing: tuple[str, ...]) -> pa.ChunkedArray:
    """Replace texts that mean a missing value by NULL, also within lists and objects."""
    if not missing:
        return column
    return pa.chunked_array([_without(chunk, list(missing)) for chunk in column.chunks], column.type)


def _without(values: pa.Array, missing: list[str]) -> pa.Array:
    if types.is_struct(values.type):
        fields = [_without(field, missing) for field in values.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(values.type), mask=values.is_null())
    if types.is_list(values.type) or types.is_large_list(values.type):
        elements = _without(values.values, missing)
        return type(values).from_arrays(values.offsets, elements, type=values.type, mask=values.is_null())
    if not (types.is_string(values.type) or types.is_large_string(values.type)):
        return values
    texts = pl.Series(pl.from_arrow(values))
    is_missing = texts.str.strip_chars().is_in(missing)
    return (
        texts.set(is_missing.fill_null(value=False), None).to_arrow().cast(values.type) if is_missing.any() else values
    )
