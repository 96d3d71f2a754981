"""Aggregate functions: count, sum, mean, first, quantile, …; of which values they can be, and of which type they are."""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, NamedTuple, ParamSpec, get_args

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.operator_call import MadeByCall, OperatorCall
from keyfold.keyed.rows.codec import polars_schema
from keyfold.schemas import arrow_type, check_by_row, require, type_of

_ONE = pl.lit(1, pl.Int64)

COUNTED = "n_events"
"""Default name of the column with the number of events that a row stands for."""

_InAnyOrder = Literal[
    "count",
    "sum",
    "min",
    "max",
    "mean",
    "first",
    "last",
    "distinct",
    "count_distinct",
    "quantile",
    "collect",
]
_OfPairs = Literal["over_pairs", "sum_of_decreases"]
Kind = _InAnyOrder | _OfPairs
"""The kind of an aggregate: the name of the function that makes it."""

IN_ANY_ORDER: tuple[Kind, ...] = get_args(_InAnyOrder)
"""The aggregates that do not need events in order: of all operators but `running`, which has no `quantile`."""

OF_PAIRS: tuple[Kind, ...] = get_args(_OfPairs)
"""The aggregates of consecutive events, for operators that take events in order."""

IN_ORDER = (*IN_ANY_ORDER, *OF_PAIRS)
"""The aggregates of operators that take events in order."""


@dataclass(frozen=True)
class Aggregate(MadeByCall):
    """An aggregate function.

    Attributes:
        kind: the function that makes it, which says how values are combined; NULLs are ignored.
        value: the value of one event, an expression over the columns of the event table.
        ignored: values of `distinct` that do not count.
        at_most: how many values of a group are kept, for those that keep them.
        q: which quantile.
    """

    kind: Kind
    value: pl.Expr
    ignored: tuple[Any, ...] = ()
    at_most: int = 0
    q: float = 0.0

    def __post_init__(self) -> None:
        require(f"the value of {self.kind}", self.value, pl.Expr, "a column's name or an expression")
        if self.kind not in OF_PAIRS:
            check_by_row(f"the value of {self.kind}", self.value)
        if self.kind in ("count_distinct", "quantile", "collect") and self.at_most < 1:
            raise Misconfigured(f"{self.kind}: at_most is {self.at_most}; it must be 1 or more")

    @property
    def column(self) -> str:
        """The column whose values it takes; empty if they are computed."""
        names = self.value.meta.root_names()
        return names[0] if len(names) == 1 and self.value.meta.eq(pl.col(names[0])) else ""

    @property
    def counts(self) -> bool:
        """Whether it counts all events."""
        return self.kind == "count" and self.value.meta.eq(_ONE)


_Of = ParamSpec("_Of")


def _aggregate(function: Callable[_Of, Aggregate]) -> Callable[_Of, Aggregate]:
    """Let an aggregate have the call that made it, of which a generation keeps the fingerprint."""
    signature = inspect.signature(function)

    @wraps(function)
    def declare(*args: _Of.args, **named: _Of.kwargs) -> Aggregate:
        aggregate = function(*args, **named)
        arguments = signature.bind(*args, **named)
        arguments.apply_defaults()
        return replace(aggregate, call=OperatorCall(function, arguments.arguments))

    return declare


@_aggregate
def count(where: pl.Expr | None = None) -> Aggregate:
    """Count all events, or those for which a condition is true."""
    require(
        "count: where", where, pl.Expr | None, "a condition, such as pl.col('amount') > 3; count_distinct counts values"
    )
    return Aggregate("count", _ONE if where is None else where.fill_null(value=False).cast(pl.Int64))


@_aggregate
def sum(value: str | pl.Expr) -> Aggregate:
    """Sum numbers; 0 if there are no values. The sum does not depend on the order of events.

    Of whole numbers it is int64, of decimals a decimal of 38 digits: exact, and one that overflows raises an error. Of floats it is
    float64, and rounded once, at the end.
    """
    return Aggregate("sum", _value(value))


@_aggregate
def min(value: str | pl.Expr) -> Aggregate:
    """Take the minimum; NULL if there are no values."""
    return Aggregate("min", _value(value))


@_aggregate
def max(value: str | pl.Expr) -> Aggregate:
    """Take the maximum; NULL if there are no values."""
    return Aggregate("max", _value(value))


@_aggregate
def mean(value: str | pl.Expr) -> Aggregate:
    """Average the values as floats; NULL if there are no values. It does not depend on the order of events."""
    return Aggregate("mean", _value(value))


@_aggregate
def first(value: str | pl.Expr) -> Aggregate:
    """Take the value of the first event in event time, NULL too; simultaneous ones are ordered as in `keyfold.operators`."""
    return Aggregate("first", _value(value))


@_aggregate
def last(value: str | pl.Expr) -> Aggregate:
    """Take the value of the last event in event time, NULL too; simultaneous ones are ordered as in `keyfold.operators`."""
    return Aggregate("last", _value(value))


@_aggregate
def count_distinct(value: str | pl.Expr, at_most: int = 10_000) -> Aggregate:
    """Count the different values, without NULL, exactly. State keeps them; more than `at_most` in a group raise an error."""
    return Aggregate("count_distinct", _value(value), at_most=at_most)


@_aggregate
def quantile(value: str | pl.Expr, q: float, at_most: int = 10_000) -> Aggregate:
    """Take a quantile of the values (0.5: the median), between two values in proportion; NULL if there are none.

    It is exact: state keeps the values, and more than `at_most` in a group raise an error.

    Raises:
        Misconfigured: `q` is not from 0 to 1.
    """
    if not isinstance(q, int | float) or not 0 <= q <= 1:
        raise Misconfigured(f"a quantile is from 0 to 1, such as 0.5 for the median, and not {q!r}")
    return Aggregate("quantile", _value(value), at_most=at_most, q=q)


@_aggregate
def collect(value: str | pl.Expr, at_most: int = 1_000) -> Aggregate:
    """List the values in order of event time, then of value; more than `at_most` in a group raise an error."""
    return Aggregate("collect", _value(value), at_most=at_most)


@_aggregate
def over_pairs(value: pl.Expr) -> Aggregate:
    """Sum a number of each two consecutive events; `pl.col("x").shift()` is of the earlier one. For operators that take events in order."""
    return Aggregate("over_pairs", value)


@_aggregate
def sum_of_decreases(value: str | pl.Expr) -> Aggregate:
    """Sum by how much each known value is below the one before it; NULL if none is known. For operators that take events in order."""
    return Aggregate("sum_of_decreases", _value(value))


def divided(value: pl.Expr, by: float) -> pl.Expr:
    """Divide whole numbers as Python does; Polars multiplies by the inverse of a constant, which sometimes differs by one bit."""
    return value / (value * 0 + by)


@_aggregate
def distinct(value: str | pl.Expr, ignored: tuple[Any, ...] = ()) -> Aggregate:
    """Collect the set of the elements of lists, sorted, without NULLs and without `ignored`."""
    return Aggregate("distinct", _value(value), ignored)


def require_known(
    job: str, of: Mapping[str, Aggregate], kinds: Collection[str], operator: str = "this operator"
) -> None:
    """Check that an operator has these aggregates.

    Raises:
        Misconfigured: it lacks one.
    """
    for name, aggregate in of.items():
        if aggregate.kind not in kinds:
            raise Misconfigured(f"job {job}: {name} is made by {aggregate.kind}; {operator} has {', '.join(kinds)}")


class Types(NamedTuple):
    """The types of an aggregate.

    Attributes:
        value: that of its values, as state and tables hold them.
        result: its own.
        converted: whether its values are of another type before.
    """

    value: pl.DataType
    result: pa.DataType
    converted: bool = False


def types_of(place: str, aggregate: Aggregate, columns: pa.Schema) -> Types:
    """Return the types of an aggregate of events with these columns.

    Raises:
        Misconfigured: a value is of a column that there is not, or of a type that the aggregate cannot be of.
    """
    value = type_in(place, aggregate.value, columns)
    if aggregate.kind in _OF_NUMBERS and not (value.is_numeric() or isinstance(value, pl.Null)):
        raise Misconfigured(f"{place}: {value} is no number; give a column or an expression of numbers")
    if aggregate.kind in ("min", "max", "count_distinct") and value.is_nested():
        raise Misconfigured(f"{place}: {value} has no order; give a field of it, or another plain value")
    if aggregate.kind == "distinct" and not isinstance(value, pl.List):
        raise Misconfigured(
            f"{place}: distinct is of the elements of lists, and this is {value}; count_distinct counts values"
        )
    # Tables have no unsigned numbers.
    held = pl.Int64() if value.is_unsigned_integer() or isinstance(value, pl.Null) else value
    if aggregate.kind in ("mean", "quantile"):
        result = pa.float64()
    elif aggregate.kind == "count_distinct":
        result = pa.int64()
    elif aggregate.kind == "collect":
        result = arrow_type(pl.List(held))
    else:
        result = sum_type(held) if aggregate.kind in _SUMS else arrow_type(held)
    return Types(held, result, held != value)


def sum_type(value: pl.DataType) -> pa.DataType:
    """Return the type of a sum of numbers."""
    if isinstance(value, pl.Decimal):
        return pa.decimal128(38, value.scale)
    return pa.float64() if value.is_float() else pa.int64()


_SUMS = ("count", "sum", *OF_PAIRS)
_OF_NUMBERS = (*_SUMS, "mean", "quantile")


def readable(source: Input) -> pa.Schema:
    """Return the columns that keys and values may be of: those that the job reads, and all others of the table or derived."""
    events, others = source.schema, replace(source, columns=None).schema
    return pa.schema([*events, *(column for column in others if column.name not in events.names)])


def type_in(place: str, value: pl.Expr, columns: pa.Schema) -> pl.DataType:
    """Return the type of a value.

    Raises:
        Misconfigured: the value does not fit the columns.
    """
    types, names = polars_schema(columns), value.meta.root_names()
    if len(names) == 1 and names[0] in types and value.meta.eq(pl.col(names[0])):
        return types[names[0]]
    try:
        return type_of(value, types)
    except pl.exceptions.PolarsError as error:
        raise Misconfigured(f"{place}: {str(error).splitlines()[0]}; there are {', '.join(types)}") from None


def _value(value: str | pl.Expr) -> pl.Expr:
    return pl.col(value) if isinstance(value, str) else value
