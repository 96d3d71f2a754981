"""Cast columns to a stream's types, and report the values that cannot be cast.

A value of a text format (CSV, JSON, Kafka) is a text, which its column's type reads strictly: `1.5` is no whole number, and a bare
number never a time, since its unit is not known. Of Parquet, a value has a type: a number is no text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.exact_cast import exact_cast, whole_numbers
from keyfold.ingestion.parsing.time_formats import count_without_zone, read_times
from keyfold.stream import TIMESTAMP
from keyfold.times import CALENDAR, are_finer, exact_times

SHOWN = 80
"""Maximum characters of a wrong value in a reason."""

_TEXTS = pl.List(pl.String)
_EXACT = pl.Decimal(38, 9)


@dataclass(frozen=True)
class Reading:
    """How texts are read.

    Attributes:
        decimal: the decimal sign of numbers.
        zone: the zone of times without one.
        formats: the formats of times, as in `Source.time`.
    """

    decimal: str = "."
    zone: str = "UTC"
    formats: tuple[str, ...] = ()


class Cast(NamedTuple):
    """Columns of a stream's types.

    Attributes:
        table: the columns, with NULL for values that cannot be cast.
        reasons: the reason for the first such value of each row, or NULL; None if there is no such value.
        without_zone: number of times that had no zone.
    """

    table: pa.Table
    reasons: pl.Series | None
    without_zone: int


def cast_columns(
    columns: Mapping[str, Sequence[pa.ChunkedArray]],
    rows: int,
    schema: pa.Schema,
    reading: Reading = Reading(),
    formats: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Cast:
    """Cast columns to the schema's types. A column without candidates is NULL.

    Args:
        columns: for each column its candidates, in order. In each row, the first candidate with a value counts.
        rows: number of rows.
        schema: the types.
        reading: how texts are read.
        formats: the formats of times of columns that are not ISO 8601, by name.
    """
    without_zone = 0
    typed: list[pa.ChunkedArray | pa.Array] = []
    wrong: pl.Series | None = None
    for field in schema:
        candidates = [candidate for candidate in columns.get(field.name, ()) if candidate.null_count < rows]
        own = replace(reading, formats=formats.get(field.name, ()))
        quick = _quick(candidates[0], field.type) if len(candidates) == 1 and not own.formats else None
        if quick is not None or not candidates:
            typed.append(pa.nulls(rows, field.type) if quick is None else quick)
            continue
        # Cast each candidate by itself: converted to text first, a float would be read by its rounded digits.
        values, reason, is_given = _cast_with_reasons(candidates[0], field, own)
        for candidate in candidates[1:]:
            other, other_reason, other_given = _cast_with_reasons(candidate, field, own)
            values, reason = values.zip_with(is_given, other), reason.zip_with(is_given, other_reason)
            is_given |= other_given
        if types.is_timestamp(field.type):
            without_zone += sum(
                count_without_zone(to_series(candidate), values, own.formats) for candidate in candidates
            )
        typed.append(values.to_arrow().cast(field.type))
        if reason.null_count() < rows:
            wrong = reason if wrong is None else wrong.zip_with(wrong.is_not_null(), reason)
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return Cast(pa.table(typed, schema=nullable), wrong, without_zone)


def to_series(column: pa.ChunkedArray | pa.Array) -> pl.Series:
    """Convert a column to Polars. Decimals of 256 bits become text, and types that Polars lacks become bytes."""
    if types.is_decimal256(column.type):
        column = column.cast(pa.string())
    try:
        return pl.Series(pl.from_arrow(column))
    except (pl.exceptions.ComputeError, pl.exceptions.PanicException):
        shown = [None if value is None else str(value)[:SHOWN].encode() for value in column.to_pylist()]
        return pl.Series(shown, dtype=pl.Binary)


def _cast_with_reasons(
    column: pa.ChunkedArray, field: pa.Field, reading: Reading
) -> tuple[pl.Series, pl.Series, pl.Series]:
    """Return the typed values, the reasons for values that cannot be cast, and which rows have a value."""
    raw = to_series(column)
    is_given = _is_given(raw)
    values = _cast(raw, field.type, reading)
    # `to_series` has made a wide decimal text, but it must not pass as text.
    if types.is_decimal256(column.type) and not (
        types.is_integer(field.type) or types.is_floating(field.type) or types.is_decimal(field.type)
    ):
        values = values.clear(len(values))
    reason = pl.Series(dtype=pl.String).clear(len(raw))
    failed = (values.is_null() & is_given).arg_true()
    if len(failed):
        reason = reason.scatter(failed, _reasons(raw.gather(failed), field, reading))
    return values, reason, is_given


def _reasons(wrong: pl.Series, field: pa.Field, reading: Reading) -> pl.Series:
    if types.is_nested(field.type):
        reasons = [_reason(wrong.slice(at, 1), field.type, field.name, reading) for at in range(len(wrong))]
        return pl.Series(reasons, dtype=pl.String)
    if reading.formats and wrong.dtype == pl.String:
        # As decimals, which a reader may have made of numbers (`Source.raw_type`), whatever it is that read them.
        numbers = wrong.cast(_EXACT, strict=False).cast(pl.String)
        wrong = wrong.zip_with(numbers.is_null() | wrong.str.contains(r"\.[0-9]{10}"), numbers)
    reasons = f"{field.name} is not {named(field.type)}: " + _shown(wrong)
    if types.is_timestamp(field.type) and (finer := are_finer(wrong)).any():
        reasons = reasons.zip_with(~finer, f"{field.name} is finer than a microsecond: " + _shown(wrong))
    if wrong.dtype.is_float() and types.is_integer(field.type):
        # It is a whole number, but beyond 2^53 several whole numbers have the same float.
        coarse = f"{field.name} is a float too large to stand for one whole number alone: " + _shown(wrong)
        reasons = reasons.zip_with(wrong.is_infinite() | (wrong != wrong.floor()) | (wrong.abs() > 2**63), coarse)
    return reasons


def _reason(value: pl.Series, kind: pa.DataType, name: str, reading: Reading) -> str | None:
    """Return why a value, the only one of a series, cannot be cast, with the path to what is wrong in it; None if it can."""
    inner: list[tuple[pl.Series, pa.DataType, str]] = []
    if types.is_list(kind) and isinstance(value.dtype, pl.List | pl.Array):
        elements = value.drop_nulls().explode()
        inner = [(elements.slice(at, 1), kind.value_type, f"{name}[{at}]") for at in range(len(elements))]
    elif types.is_struct(kind) and isinstance(value.dtype, pl.Struct):
        fields = {field.name: field for field in value.struct.unnest()}
        inner = [(fields[field.name], field.type, f"{name}.{field.name}") for field in kind if field.name in fields]
    if why := next((why for nested in inner if (why := _reason(*nested, reading))), None):
        return why
    is_wrong = (_cast(value, kind, reading).is_null() & _is_given(value)).any()
    return f"{name} is not {named(kind)}: {_shown(value).item()}" if is_wrong else None


def _quick(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray | None:
    """Cast by Arrow's kernels, if every value can be cast; else None. Polars would plan a query for each of these."""
    import pyarrow.compute as pc  # noqa: PLC0415 - takes 50 ms

    if column.type == target and _all_values_are_valid(target):
        return column
    if column.type == target == pa.float64():
        return (
            column if pc.call_function("all", [pc.call_function("is_finite", [column])]).as_py() is not False else None
        )
    if target == TIMESTAMP and types.is_string(column.type):
        try:
            times = column.cast(target)
        except pa.ArrowInvalid:
            return None
        edges = pc.call_function("min_max", [times])
        # Without a value there is none that is out of the calendar.
        return (
            times
            if all(edge.value is None or CALENDAR[0] <= edge.value <= CALENDAR[1] for edge in edges.values())
            else None
        )
    return None


def _all_values_are_valid(target: pa.DataType) -> bool:
    """Whether every value of a type is valid: not if some are infinite, out of the calendar, or beyond the digits."""
    if types.is_list(target):
        return _all_values_are_valid(target.value_type)
    if types.is_struct(target):
        return all(_all_values_are_valid(field.type) for field in target)
    return types.is_string(target) or types.is_boolean(target) or types.is_integer(target)


def _cast(raw: pl.Series, target: pa.DataType, reading: Reading) -> pl.Series:
    """Cast values; NULL for those that cannot be cast."""
    cast = next(cast for is_kind, cast, _ in _KINDS if is_kind(target))
    return cast(raw, target, reading)


def _number(raw: pl.Series, reading: Reading) -> pl.Series:
    """Return numbers, of texts with a point before the fraction. What has another sign there is none."""
    if raw.dtype != pl.String or reading.decimal == ".":
        return raw
    return raw.str.replace_all(".", " . ", literal=True).str.replace_all(reading.decimal, ".", literal=True)


def _is_given(values: pl.Series) -> pl.Series:
    # NaN means a missing value, as in pandas.
    return values.is_not_null() & values.is_not_nan() if values.dtype.is_float() else values.is_not_null()


def _dtype(target: pa.DataType) -> pl.DataType:
    return pl.Series(pl.from_arrow(pa.array([], target))).dtype


def _as_text(raw: pl.Series, *_: object) -> pl.Series:
    if raw.dtype in (pl.String, pl.Categorical, pl.Enum):
        return raw.cast(pl.String)
    return _nulls(raw, pl.String())


def _as_texts(raw: pl.Series) -> pl.Series:
    """Keep lists of texts, also with NULL elements, and make a single text a list."""
    if isinstance(raw.dtype, pl.Array):
        raw = raw.arr.to_list()
    if isinstance(raw.dtype, pl.List):
        is_text = raw.dtype.inner in (pl.String, pl.Categorical, pl.Enum, pl.Null)
        return raw.cast(_TEXTS) if is_text else _nulls(raw, _TEXTS)
    # Some producers leave out the brackets if there is only one value.
    alone = _as_text(raw)
    return alone.to_frame("text").select(pl.concat_list("text")).to_series().set(alone.is_null(), None)


def _as_lists(raw: pl.Series, target: pa.ListType, reading: Reading) -> pl.Series:
    """Cast the elements of lists; a list with an element that does not fit becomes NULL as a whole."""
    if types.is_string(target.value_type):
        return _as_texts(raw)
    if isinstance(raw.dtype, pl.Array):
        raw = raw.arr.to_list()
    if not isinstance(raw.dtype, pl.List):
        return _nulls(raw, _dtype(target))
    lists = raw.rechunk().to_arrow()
    elements = pl.Series(pl.from_arrow(lists.values))
    typed = _cast(elements, target.value_type, reading)
    is_wrong = (typed.is_null() & _is_given(elements)).to_numpy()
    offsets = lists.offsets.to_numpy()
    before = np.concatenate([[0], np.cumsum(is_wrong)])
    is_absent = raw.is_null().to_numpy() | (before[offsets[1:]] > before[offsets[:-1]])
    elements_of_type = typed.to_arrow().cast(target.value_type)
    return pl.Series(
        pl.from_arrow(pa.LargeListArray.from_arrays(lists.offsets, elements_of_type, mask=pa.array(is_absent)))
    )


def _as_objects(raw: pl.Series, target: pa.StructType, reading: Reading) -> pl.Series:
    """Cast the fields of objects; an object with a field that does not fit becomes NULL as a whole."""
    if not isinstance(raw.dtype, pl.Struct):
        return _nulls(raw, _dtype(target))
    columns = {column.name: column for column in raw.struct.unnest()}
    is_absent = raw.is_null()
    fields: list[pa.Array] = []
    for field in target:
        values = columns.get(field.name, pl.repeat(None, len(raw), eager=True))
        typed = _cast(values, field.type, reading)
        is_absent |= typed.is_null() & _is_given(values)
        fields.append(typed.to_arrow().cast(field.type))
    return pl.Series(pl.from_arrow(pa.StructArray.from_arrays(fields, fields=list(target), mask=is_absent.to_arrow())))


def _as_date(raw: pl.Series, _: pa.DataType, reading: Reading) -> pl.Series:
    if raw.dtype.is_numeric() or raw.dtype == pl.Boolean:
        return _nulls(raw, pl.Date())
    # Of texts `%Y-%m-%d` alone, and of times those at midnight UTC.
    dates = exact_cast(exact_times(raw, reading.zone) if isinstance(raw.dtype, pl.Datetime) else raw, pl.Date())
    return dates.set(~dates.dt.year().is_between(1, 9999), None)


def _as_decimal(raw: pl.Series, target: pa.Decimal128Type, reading: Reading) -> pl.Series:
    wanted = pl.Decimal(target.precision, target.scale)
    decimals = exact_cast(_number(raw, reading), wanted) if raw.dtype != pl.Boolean else _nulls(raw, wanted)
    return decimals.set(decimals.abs() >= 10 ** (target.precision - target.scale), None)


def _as_bool(raw: pl.Series, *_: object) -> pl.Series:
    # 0 and 1 are numbers.
    return exact_cast(raw, pl.Boolean()) if raw.dtype in (pl.Boolean, pl.String) else _nulls(raw, pl.Boolean())


def _as_float(raw: pl.Series, target: pa.DataType, reading: Reading) -> pl.Series:
    if raw.dtype == pl.String:
        raw = _number(raw.str.strip_chars(), reading)
    elif not raw.dtype.is_numeric():
        return _nulls(raw, _dtype(target))
    values = raw.cast(pl.Float64, strict=False).cast(_dtype(target))
    return values.set(~values.is_finite(), None)


def _nulls(raw: pl.Series, dtype: pl.DataType) -> pl.Series:
    return pl.Series(dtype=dtype).clear(len(raw))


def named(target: pa.DataType) -> str:
    """Return the name of a type in reasons."""
    return next(name(target) for is_kind, _, name in _KINDS if is_kind(target))


def _named_list(target: pa.ListType) -> str:
    if types.is_string(target.value_type):
        return "a text or a list of texts"
    inner = named(target.value_type)
    return (
        f"a list of objects{inner.removeprefix('an object')}"
        if types.is_struct(target.value_type)
        else f"a list, each {inner}"
    )


def _shown(raw: pl.Series) -> pl.Series:
    if raw.dtype.is_nested() or raw.dtype == pl.Binary:
        return pl.Series([None if value is None else str(value)[:SHOWN] for value in raw.to_list()], dtype=pl.String)
    if isinstance(raw.dtype, pl.Datetime) and raw.dtype.time_unit == "ns":
        return raw.to_physical().cast(pl.Datetime("ns")).dt.strftime("%Y-%m-%dT%H:%M:%S%.9f")
    if raw.dtype.is_temporal() and raw.dtype != pl.Date:
        raw = raw.to_physical()  # a wrong time is out of the calendar and cannot be formatted
    return raw.cast(pl.String).str.head(SHOWN)


_KINDS: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pl.Series, Any, Reading], pl.Series], Callable[[Any], str]], ...
] = (
    (types.is_list, _as_lists, _named_list),
    (
        types.is_struct,
        _as_objects,
        lambda kind: f"an object ({', '.join(f'{field.name}: {named(field.type)}' for field in kind)})",
    ),
    (
        types.is_timestamp,
        lambda raw, _, reading: read_times(raw, reading.formats, reading.zone),
        lambda _: "an ISO 8601 time",
    ),
    (types.is_date, _as_date, lambda _: "a date such as 2026-01-31"),
    (types.is_boolean, _as_bool, lambda _: "true or false"),
    (
        types.is_integer,
        lambda raw, kind, reading: whole_numbers(_number(raw, reading), _dtype(kind)),
        lambda kind: f"an integer of {kind.bit_width} bits",
    ),
    (types.is_floating, _as_float, lambda _: "a finite number"),
    (
        types.is_decimal,
        _as_decimal,
        lambda kind: f"a number of at most {kind.precision} digits, {kind.scale} of them after the point",
    ),
    (types.is_string, _as_text, lambda _: "text"),
)
"""The types that columns of streams may have : how values are cast, and the name of the type in reasons."""
