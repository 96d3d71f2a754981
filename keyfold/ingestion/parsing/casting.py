"""Casts columns of whatever type a file gave them to a stream's types, and says which values would not go.

Nothing is guessed: a number is not text, text is a number only where the format knows nothing else (CSV), and a bare
number is never a time, since nobody knows whether it counts seconds or milliseconds.
"""

from collections.abc import Mapping, Sequence

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.errors import Misconfigured
from keyfold.exact_times import CALENDAR, are_finer, exact_times
from keyfold.stream import TIMESTAMP
from keyfold.whole_numbers import whole_numbers

SHOWN = 80
"""How many characters of a wrong value a reason shows."""

_TEXTS = pl.List(pl.String)


def cast_columns(
    columns: Mapping[str, Sequence[pa.ChunkedArray]], rows: int, schema: pa.Schema
) -> tuple[pa.Table, pl.Series]:
    """Cast to the schema's types; a column that is not there is NULL throughout.

    Args:
        columns: of each column the candidates, in order: row by row the first one with a value gives it.
        rows: how many.
        schema: the types.

    Returns:
        The typed table, with NULL for values that would not go, and per row the first such value's reason or NULL.

    Raises:
        KeyfoldError: the schema has a type that no cast leads to.
    """
    typed: list[pa.ChunkedArray | pa.Array] = []
    wrong = pl.repeat(None, rows, dtype=pl.String, eager=True)
    for field in schema:
        candidates = [one for one in columns.get(field.name, ()) if one.null_count < rows]
        quick = _quick(candidates[0], field.type) if len(candidates) == 1 else None
        if quick is not None or not candidates:
            typed.append(pa.nulls(rows, field.type) if quick is None else quick)
            continue
        # Each is cast by itself: as text, to make them alike, a float would pass for the digits that it is shown with.
        values, reason, is_given = _cast_with_reasons(candidates[0], field)
        for candidate in candidates[1:]:
            other, other_reason, other_given = _cast_with_reasons(candidate, field)
            values, reason = values.zip_with(is_given, other), reason.zip_with(is_given, other_reason)
            is_given |= other_given
        typed.append(values.to_arrow().cast(field.type))
        wrong = wrong.zip_with(wrong.is_not_null(), reason)
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.table(typed, schema=nullable), wrong


def to_series(column: pa.ChunkedArray | pa.Array) -> pl.Series:
    """The column for Polars. Decimals of 256 bits become text with all their digits, and types that it lacks, bytes."""
    if types.is_decimal256(column.type):
        column = column.cast(pa.string())
    try:
        return pl.Series(pl.from_arrow(column))
    except (pl.exceptions.ComputeError, pl.exceptions.PanicException):
        shown = [None if value is None else str(value)[:SHOWN].encode() for value in column.to_pylist()]
        return pl.Series(shown, dtype=pl.Binary)


def _cast_with_reasons(column: pa.ChunkedArray, field: pa.Field) -> tuple[pl.Series, pl.Series, pl.Series]:
    """The typed values, why a value would not go, and which rows have a value."""
    given = to_series(column)
    is_given = given.is_not_null()
    if given.dtype.is_float():
        is_given &= given.is_not_nan()  # a frame's NaN stands for a value that is missing
    values = _cast(given, field)
    # A wide decimal is text by now, and is none.
    if types.is_decimal256(column.type) and not (types.is_integer(field.type) or types.is_floating(field.type)):
        values = values.clear(len(values))
    reason = pl.repeat(None, len(given), dtype=pl.String, eager=True)
    failed = (values.is_null() & is_given).arg_true()
    if len(failed):
        reason = reason.scatter(failed, _reasons(given.gather(failed), field))
    return values, reason, is_given


def _reasons(wrong: pl.Series, field: pa.Field) -> pl.Series:
    reasons = f"{field.name} is not {named(field.type)}: " + _shown(wrong)
    if types.is_timestamp(field.type) and (finer := are_finer(wrong)).any():
        reasons = reasons.zip_with(~finer, f"{field.name} is finer than a microsecond: " + _shown(wrong))
    if wrong.dtype.is_float() and types.is_integer(field.type):
        # A whole number all the same, but nobody knows which.
        coarse = f"{field.name} is a float too large to stand for one whole number alone: " + _shown(wrong)
        reasons = reasons.zip_with(wrong.is_infinite() | (wrong != wrong.floor()) | (wrong.abs() > 2**63), coarse)
    return reasons


def _quick(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray | None:
    """The cast where every value goes, by Arrow's own kernels; None where one does not."""
    # Floats may hold NaN and infinities, and times years that no calendar has: those are looked at one by one.
    if column.type == target and not types.is_floating(target) and target != TIMESTAMP:
        return column
    if column.type == target == pa.float64():
        return column if pl.Series(pl.from_arrow(column)).is_finite().all() else None
    if target == TIMESTAMP and types.is_string(column.type):
        try:
            times = column.cast(target)
        except pa.ArrowInvalid:
            return None
        return times if pl.Series(pl.from_arrow(times)).to_physical().is_between(*CALENDAR).all() else None
    return None


def _cast(given: pl.Series, field: pa.Field) -> pl.Series:
    """Cast one column; NULL where a value would not go."""
    target = field.type
    if types.is_timestamp(target):
        return exact_times(given)
    if types.is_string(target):
        return _as_text(given)
    if types.is_boolean(target):
        return _as_bool(given)
    if types.is_integer(target):
        return whole_numbers(given, pl.Series(pl.from_arrow(pa.array([], target))).dtype)
    if types.is_floating(target):
        return _as_float(given)
    if types.is_list(target) and types.is_string(target.value_type):
        return _as_texts(given)
    raise Misconfigured(
        f"column {field.name} has type {target}, which ingest cannot read; use text, lists of texts, numbers or times"
    )


def _as_text(given: pl.Series) -> pl.Series:
    if given.dtype in (pl.String, pl.Categorical, pl.Enum):
        return given.cast(pl.String)
    return _nothing(given, pl.String())


def _as_texts(given: pl.Series) -> pl.Series:
    """Lists as they are, also with elements that are NULL."""
    if isinstance(given.dtype, pl.Array):
        given = given.arr.to_list()
    if isinstance(given.dtype, pl.List):
        is_text = given.dtype.inner in (pl.String, pl.Categorical, pl.Enum, pl.Null)
        return given.cast(_TEXTS) if is_text else _nothing(given, _TEXTS)
    # A text alone is a list of one: producers leave the brackets out where there is one value.
    alone = _as_text(given)
    return alone.to_frame("text").select(pl.concat_list("text")).to_series().set(alone.is_null(), None)


def _as_bool(given: pl.Series) -> pl.Series:
    if given.dtype == pl.Boolean:
        return given
    if given.dtype == pl.String:
        text = given.str.strip_chars().str.to_lowercase()
        return text.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    return _nothing(given, pl.Boolean())


def _as_float(given: pl.Series) -> pl.Series:
    if given.dtype == pl.String:
        given = given.str.strip_chars()
    elif not given.dtype.is_numeric():
        return _nothing(given, pl.Float64())
    values = given.cast(pl.Float64, strict=False)
    return values.set(~values.is_finite(), None)


def _nothing(given: pl.Series, dtype: pl.DataType) -> pl.Series:
    return pl.repeat(None, len(given), dtype=dtype, eager=True)


def named(target: pa.DataType) -> str:
    """What a reason calls a type."""
    if types.is_timestamp(target):
        return "an ISO 8601 time"
    if types.is_integer(target):
        return f"an integer of {target.bit_width} bits"
    if types.is_floating(target):
        return "a finite number"
    if types.is_list(target):
        return "a text or a list of texts"
    return "true or false" if types.is_boolean(target) else "text"


def _shown(given: pl.Series) -> pl.Series:
    if given.dtype.is_nested() or given.dtype == pl.Binary:
        return pl.Series([None if value is None else str(value)[:SHOWN] for value in given.to_list()], dtype=pl.String)
    if isinstance(given.dtype, pl.Datetime) and given.dtype.time_unit == "ns":
        return given.to_physical().cast(pl.Datetime("ns")).dt.strftime("%Y-%m-%dT%H:%M:%S%.9f")
    if given.dtype.is_temporal() and given.dtype != pl.Date:
        given = given.to_physical()  # a time that is wrong is one that no calendar holds
    return given.cast(pl.String).str.head(SHOWN)
