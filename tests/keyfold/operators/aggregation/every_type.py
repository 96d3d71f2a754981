"""Events of every type, and what plain Python says the aggregates of some of them are: for the property of all operators."""

import math
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from keyfold import Input, Stream
from keyfold import operators as op
from tests.shop import MINUTE, NOON

TIME = pa.timestamp("us", tz="UTC")


class Kind(NamedTuple):
    """A type: of a column that streams have, or else of an expression; its values; and an expression that changes them."""

    type: pa.DataType
    values: list[Any]
    expression: Callable[[pl.Expr], pl.Expr]
    cast: Any = None


def _decimals(*texts: str | None) -> list[Decimal | None]:
    return [None if text is None else Decimal(text) for text in texts]


_TIMES = [NOON, NOON - 400 * timedelta(days=365), None, NOON + timedelta(microseconds=1), NOON]
_DAYS = [date(2026, 2, 28), None, date(1, 1, 1), date(9999, 12, 30), date(2026, 2, 28)]
_LISTS = [["b", "a"], [], None, ["a", None, "c"], ["b"], ["c", "c"]]
KINDS = {
    "i8": Kind(pa.int8(), [127, -128, None, 127, 5, 3, 127], lambda value: value * pl.col("n")),
    "i16": Kind(pa.int16(), [32767, -32768, 32767, None, 0, 9], lambda value: value * pl.col("n")),
    "i32": Kind(pa.int32(), [2**31 - 1, -(2**31), 2**31 - 1, 2**31 - 2, None, 1], lambda value: value * pl.col("n")),
    "i64": Kind(pa.int64(), [2**60, None, -(2**60), 2**53 + 1, 1, 2**53], lambda value: value // pl.col("n")),
    "u8": Kind(pa.uint8(), [255, 0, None, 255, 7], lambda value: value // 2, pl.UInt8),
    "u16": Kind(pa.uint16(), [65535, None, 65535, 3], lambda value: value // 2, pl.UInt16),
    "u32": Kind(pa.uint32(), [2**32 - 1, 2**32 - 1, None, 8], lambda value: value // 2, pl.UInt32),
    "u64": Kind(pa.uint64(), [2**60, None, 2**53 + 1, 4], lambda value: value // 2, pl.UInt64),
    "f32": Kind(pa.float32(), [0.5, 1.25, None, -0.0, 0.0, 1e30, -3.75], lambda value: value * 0.5),
    "f64": Kind(pa.float64(), [10.9, -0.0, 10.2, 0.0, None, 9.4, 1 / 3, -2.5], lambda value: value * pl.col("n")),
    "huge": Kind(pa.float64(), [1e289, 1e300, None, -1e300, 5e-324, 1e-290, 2.0**-40], lambda value: value / 4),
    "wild": Kind(pa.float64(), [math.inf, 1e289, None, math.inf, 3.5, 1e300], lambda value: value / 2),
    "none": Kind(pa.float64(), [math.nan, 1.5, math.inf, -math.inf, None], lambda value: value * 2),
    "money": Kind(
        pa.decimal128(10, 2),
        _decimals("10.90", "99999999.99", None, "-99999999.99", "0.01"),
        lambda value: value * pl.col("n").cast(pl.Decimal(10, 0)),
    ),
    "exact": Kind(pa.decimal128(38, 9), _decimals("1.000000001", None, "-7.5", "123456789012345678.9"), lambda v: v - 1),
    "whole": Kind(pa.decimal128(5, 0), _decimals("99999", "99999", None, "-1"), lambda value: value + 1),
    "text": Kind(pa.string(), ["b", "", None, "ä", "a", "b"], lambda value: value + "!"),
    "time": Kind(TIME, _TIMES, lambda value: value + timedelta(days=1)),
    "day": Kind(pa.date32(), _DAYS, lambda value: value.dt.offset_by("1d")),
    "truth": Kind(pa.bool_(), [False, None, True, False], lambda value: ~value),
    "bytes": Kind(pa.binary(), ["ä", "", None, "a"], lambda value: value, pl.Binary),
    "texts": Kind(pa.list_(pa.string()), _LISTS, lambda value: value.list.reverse()),
}  # fmt: skip
# Streams have no such columns: they are made of others.
_STORED = {pa.binary(): pa.string(), **dict.fromkeys((pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()), pa.int64())}

# `n` is 2 or 3, so that a product differs from its factor.
EVENT = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("room", pa.string(), nullable=False),
        pa.field("at", TIME, nullable=False),
        pa.field("n", pa.int64(), nullable=False),
        *((name, _STORED.get(kind.type, kind.type)) for name, kind in KINDS.items()),
    ]
)


def value_of(kind: str, form: str) -> pl.Expr:
    """The value that is aggregated: a column of the stream, a derived one, or an expression."""
    value = pl.col(kind) if KINDS[kind].cast is None else pl.col(kind).cast(KINDS[kind].cast)
    return {"column": value, "expression": KINDS[kind].expression(value), "derived": pl.col(f"{kind}_derived")}[form]


def is_signed(kind: str) -> bool:
    """Whether a table can have such a column."""
    return not pa.types.is_unsigned_integer(KINDS[kind].type)


DERIVED = {f"{kind}_derived": value_of(kind, "expression") for kind in KINDS}
STREAM = Stream("events", EVENT, event_time="at")
EVENTS = Input(STREAM.derive(**DERIVED))
SIGNED = Input(STREAM.derive(**{f"{kind}_derived": DERIVED[f"{kind}_derived"] for kind in KINDS if is_signed(kind)}))


def events(rooms: str = "ab", number: int = 24) -> pl.DataFrame:
    """Events in order of time and number, in half an hour; some at the same time."""
    rows = [
        {
            "id": place,
            "room": rooms[place % len(rooms)],
            "at": NOON + place // 4 * 4 * MINUTE,
            "n": 2 + place % 3 % 2,
            # Each column has a period of its own.
            **{name: kind.values[place * 3 // 2 % len(kind.values)] for name, kind in KINDS.items()},
        }
        for place in range(number)
    ]
    return pl.DataFrame(rows, schema=pl.Schema(EVENT))


def aggregates(kinds: list[str], forms: list[str], has: set[str]) -> dict[str, tuple[str, str, str]]:
    """The columns of a job with every aggregate that it has of every type that fits: which of which type and form."""
    return {
        f"{aggregate}_{kind}_{form}": (aggregate, kind, form)
        for kind in kinds
        for form in forms
        for aggregate in sorted(has)
        if fits(aggregate, kind)
    }


def fits(aggregate: str, kind: str) -> bool:
    """Whether an aggregate is of such values."""
    type_, is_list = KINDS[kind].type, pa.types.is_list(KINDS[kind].type)
    if aggregate in ("sum", "mean", "quantile", "over_pairs", "sum_of_decreases"):
        return pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    return is_list if aggregate == "distinct" else not is_list or aggregate in ("first", "last", "collect")


def aggregate_of(aggregate: str, kind: str, form: str) -> op.Aggregate:
    """Declare the aggregate."""
    value = value_of(kind, form)
    if aggregate == "quantile":
        return op.quantile(value, 0.25)
    if aggregate == "over_pairs":
        if pa.types.is_integer(KINDS[kind].type):
            value = value.cast(pl.Int64)
        return op.over_pairs(value - value.shift())
    return getattr(op, aggregate)(value)


def type_of_aggregate(aggregate: str, kind: str, form: str) -> pa.DataType:
    """The type of its column, as a table holds it."""
    if aggregate == "count_distinct":
        return pa.int64()
    if aggregate in ("mean", "quantile"):
        return pa.float64()
    value = KINDS[kind].type
    if pa.types.is_decimal(value):
        shown: Any = events().select(value_in(kind, form)).to_series().dtype
        value = pa.decimal128(38 if form != "column" else value.precision, shown.scale)
    elif form != "column" and kind in ("i8", "i16", "i32"):
        value = pa.int64()
    if pa.types.is_unsigned_integer(value):
        value = pa.int64()
    if aggregate in ("sum", "over_pairs", "sum_of_decreases"):
        if pa.types.is_decimal(value):
            return pa.decimal128(38, value.scale)
        return pa.int64() if pa.types.is_integer(value) else pa.float64()
    return pa.list_(value) if aggregate == "collect" else value


def by_hand(aggregate: str, values: list[Any]) -> Any:
    """What an aggregate is of the values of events in order, by plain Python; sums and means of floats as fractions."""
    known = [value for value in values if value is not None]
    plain = [value for value in known if value == value]
    match aggregate:
        case "sum":
            return _total(known)
        case "mean":
            total = _total(known)
            return (
                None if not known else total / len(known) if isinstance(total, float) else Fraction(total) / len(known)
            )
        case "min" | "max":
            return (min if aggregate == "min" else max)(plain or known, default=None)
        case "first" | "last":
            return values[0 if aggregate == "first" else -1]
        case "count_distinct":
            return len({*plain}) + (len(plain) < len(known))
        case "quantile":
            return _quantile(known, Fraction(1, 4))
        case "collect":
            return values
        case "distinct":
            return sorted({one for value in known for one in value if one is not None})
        case "over_pairs" | "sum_of_decreases" if not all(map(_is_finite, known)):
            return ...
        case "over_pairs":
            return _total([later - earlier for earlier, later in pairwise(values) if None not in (earlier, later)])
        case "sum_of_decreases":
            falls = [earlier - later for earlier, later in pairwise(known) if earlier > later]
            return _total(falls or [0 * known[0]]) if known else None
    raise AssertionError(aggregate)


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _total(values: list[Any]) -> Any:
    if not values or not isinstance(values[0], float):
        return sum(values)
    if not all(map(math.isfinite, values)):
        return sum(value for value in values if not math.isfinite(value))
    return sum(map(Fraction, values), Fraction(0))


def _quantile(values: list[Any], q: Fraction) -> Any:
    if not values:
        return None
    if not all(map(_is_finite, values)):
        return ...
    ordered = sorted(map(Fraction, values))
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)


def is_right(got: Any, right: Any, values: list[Any]) -> bool:
    """Whether an aggregate is what it should be: exactly, or for fractions as floats hold them."""
    if right is ...:
        return True
    if isinstance(right, float) and math.isnan(right):
        return isinstance(got, float) and math.isnan(got)
    if right == 0 and isinstance(right, int) and isinstance(got, float | Decimal):
        # The sum of nothing.
        return got == 0
    if isinstance(right, list):
        return len(got) == len(right) and all(map(is_right, got, right, [[]] * len(right)))
    if isinstance(right, Fraction):
        if isinstance(got, Decimal):
            return Fraction(got) == right
        finite = [abs(Fraction(value)) for value in values if isinstance(value, float) and math.isfinite(value)]
        # Rounded once; what is 64 bits below the largest value, or below all scales, is left out.
        left_out = max(finite, default=Fraction(0)) * Fraction(2) ** -60 * len(values) + Fraction(2) ** -1050
        if not isinstance(got, float) or not math.isfinite(got):
            return abs(right) > Fraction(1.7e308) and got == math.copysign(math.inf, right)
        return abs(Fraction(got) - right) <= abs(right) * Fraction(2) ** -51 + left_out
    return type(got) is type(right) and got == right


def value_in(kind: str, form: str) -> pl.Expr:
    """The value as it is in events of the stream."""
    return value_of(kind, "expression" if form == "derived" else form)
