"""Find the values at paths in columns of objects and lists."""

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.parsing.casting import to_series
from keyfold.stream.raw_paths import TEXT_OF, Path, path_of


def raw_values(raw: pa.Table, name: str) -> list[pa.ChunkedArray]:
    """Return the raw columns for a name: columns with that name, then the values at its path."""
    columns = [raw.column(at) for at in raw.schema.get_all_field_indices(name)]
    if name.endswith(TEXT_OF) and not columns:
        # Formats other than JSON have no original text, so the values are encoded.
        return [as_json(one) for one in raw_values(raw, name.removesuffix(TEXT_OF))]
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
