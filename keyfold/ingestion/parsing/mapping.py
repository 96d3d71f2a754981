"""Map raw columns to event columns: rename them, fill in the path, convert times of a declared format, and make
texts that mean a missing value NULL.
"""

from pathlib import PurePath

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.exact_cast import whole_numbers
from keyfold.ingestion.parsing.casting import to_series
from keyfold.ingestion.parsing.text import file_type
from keyfold.storage.place import Place, path_below
from keyfold.stream import TIME_UNITS, Stream
from keyfold.stream.source import TEXT_OF, Path, path_of
from keyfold.times import CALENDAR, ISO_FORMAT, nanoseconds_beyond


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


def _iso_times(column: pa.ChunkedArray, shape: str) -> pa.ChunkedArray:
    values = to_series(column)
    if values.dtype.is_float():
        values = values.fill_nan(None)
    # Values that are times already, as in Parquet, need no format.
    return column if values.dtype.is_temporal() else pa.chunked_array([to_iso_times(values, shape).to_arrow()])


_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_EXACT = pl.Decimal(38, 9)
_LAST = CALENDAR[1]


def to_iso_times(values: pl.Series, shape: str) -> pl.Series:
    """Convert times to ISO 8601 text. A value in another format is returned unchanged, so that a reason can show it.

    Args:
        values: raw values, text or numbers.
        shape: the format, as in `Source.time`.

    Example:
        >>> to_iso_times(pl.Series(["21/04/2023 16:17", "soon"]), "%d/%m/%Y %H:%M").to_list()
        ['2023-04-21T16:17:00.000000Z', 'soon']
        >>> to_iso_times(pl.Series([1682093829.5]), "s").to_list()
        ['2023-04-21T16:17:09.500000Z']
    """
    raw = values if values.dtype == pl.String else values.cast(pl.String)
    times = parse_times(values, shape).dt.strftime(ISO_FORMAT)
    return times.zip_with(times.is_not_null(), raw)


def parse_times(values: pl.Series, shape: str) -> pl.Series:
    """Parse times (UTC, microseconds); NULL for values in another format, or finer than a microsecond."""
    if shape in TIME_UNITS:
        return _since_1970(values, shape)
    dtype = pl.Datetime("us", "UTC")
    if values.dtype != pl.String:
        return pl.repeat(None, len(values), dtype=dtype, eager=True)
    # Polars returns UTC for formats with an offset, and naive times for others, which count as UTC.
    texts = values.str.strip_chars()
    times = texts.str.to_datetime(shape, time_unit="us", strict=False)
    if "f" in shape:
        nanos = texts.str.to_datetime(shape, time_unit="ns", strict=False).to_physical()
        beyond = nanoseconds_beyond(times.to_physical().fill_null(0).to_numpy(), nanos.fill_null(0).to_numpy())
        times = times.set(pl.Series(beyond != 0), None)
    return times.dt.replace_time_zone("UTC") if times.dtype == pl.Datetime("us") else times.cast(dtype)


def _since_1970(values: pl.Series, unit: str) -> pl.Series:
    micros = _micros(values, unit)
    # ISO 8601 has the years 1 to 9999.
    known = micros.is_between(*CALENDAR)
    return micros.set(~known, None).cast(pl.Datetime("us", "UTC"))


def _micros(values: pl.Series, unit: str) -> pl.Series:
    """Whole microseconds; NULL if a value is finer, or a float is too coarse to be exact."""
    if unit == "ns":
        nanos = whole_numbers(values, pl.Int64())
        return (nanos // 1000).set(nanos % 1000 != 0, None)
    factor = _MICROSECONDS[unit]
    if values.dtype.is_float():
        whole = whole_numbers(values, pl.Int64())
        floats = values.cast(pl.Float64)
        rounded = whole_numbers((floats * factor).round(), pl.Int64())
        # Accept a float only if it is the nearest float of a microsecond. NumPy divides; Polars multiplies by the inverse.
        nearest = rounded.cast(pl.Float64).to_numpy() / factor
        rounded = rounded.set(pl.Series(nearest != floats.to_numpy()), None)
        return _times(whole, factor).zip_with(whole.is_not_null(), rounded)
    if values.dtype.is_integer():
        return _times(whole_numbers(values, pl.Int64()), factor)
    texts = values.cast(pl.String).str.strip_chars()
    micros = texts.cast(_EXACT, strict=False) * factor
    is_finer = (micros != micros.round()) | texts.str.contains(r"\.[0-9]{9}[0-9]*[1-9]")
    return micros.cast(pl.Int64, strict=False).set(is_finer, None)


def _times(counts: pl.Series, factor: int) -> pl.Series:
    """Multiply counts by a factor; NULL for times after the year 9999, which also prevents overflow."""
    return counts.set(counts.abs() > _LAST // factor, None) * factor
