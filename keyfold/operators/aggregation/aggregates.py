"""Aggregate functions: count, sum, mean, first, quantile, …; and of which values they can be."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.rows.codec import polars_schema
from keyfold.schemas import check_by_row, require, type_of

COUNTED = "n_events"
"""Default name of the column with the number of events that a row stands for."""


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function.

    Attributes:
        value: the value of one event, an expression over the columns of the event table.
        joined: how values are combined; NULLs are ignored.
        ignored: values of `distinct` that do not count.
        kind: the type of a sum in state, if it is not that of the table's column of this name.
        at_most: how many values of a group are kept, for those that keep them.
        q: which quantile.
    """

    value: pl.Expr
    joined: Literal[
        "sum",
        "min",
        "max",
        "mean",
        "first",
        "last",
        "between",
        "falls",
        "distinct",
        "count_distinct",
        "quantile",
        "collect",
    ]
    ignored: tuple[Any, ...] = ()
    kind: pa.DataType | None = None
    at_most: int = 0
    q: float = 0.0

    def __post_init__(self) -> None:
        require(f"the value of {self.joined}", self.value, pl.Expr, "a column's name or an expression")
        if self.joined not in ("between", "falls"):
            check_by_row(f"the value of {self.joined}", self.value)
        if self.joined in ("count_distinct", "quantile", "collect") and self.at_most < 1:
            raise Misconfigured(f"{self.joined}: at_most is {self.at_most}; it must be 1 or more")

    @property
    def column(self) -> str:
        """The column whose values it takes; empty if they are computed."""
        names = self.value.meta.root_names()
        return names[0] if len(names) == 1 and self.value.meta.eq(pl.col(names[0])) else ""

    @property
    def kind_of(self) -> str:
        """The name of the function that makes it."""
        return "count" if self.counts else self.joined

    @property
    def counts(self) -> bool:
        """Whether it counts all events."""
        return self.joined == "sum" and not self.value.meta.root_names()


def count(where: pl.Expr | None = None) -> Aggregate:
    """Count all events, or those for which a condition is true."""
    require(
        "count: where", where, pl.Expr | None, "a condition, such as pl.col('amount') > 3; count_distinct counts values"
    )
    one = pl.lit(1, pl.Int64) if where is None else where.fill_null(value=False).cast(pl.Int64)
    return Aggregate(one, "sum")


def sum(value: str | pl.Expr, kind: pa.DataType | None = None) -> Aggregate:
    """Sum numbers; 0 if there are no values. The sum does not depend on the order of events.

    Of whole numbers and decimals it is exact, and one that overflows its column raises an error. Of floats it is rounded once, at
    the end; `running`, `sessions_until` and `sessions_while` do not sum floats, nor take means of them.

    `kind` is the sum's type if it is not that of the table's column of its name, such as a decimal that is shown as a float.
    """
    return Aggregate(_value(value), "sum", kind=kind)


def min(value: str | pl.Expr) -> Aggregate:
    """Take the minimum; NULL if there are no values."""
    return Aggregate(_value(value), "min")


def max(value: str | pl.Expr) -> Aggregate:
    """Take the maximum; NULL if there are no values."""
    return Aggregate(_value(value), "max")


def mean(value: str | pl.Expr) -> Aggregate:
    """Average the values as floats; NULL if there are no values. It does not depend on the order of events."""
    return Aggregate(_value(value), "mean")


def first(value: str | pl.Expr) -> Aggregate:
    """Take the value of the first event in event time, NULL too; simultaneous ones are ordered as in `keyfold.operators`."""
    return Aggregate(_value(value), "first")


def last(value: str | pl.Expr) -> Aggregate:
    """Take the value of the last event in event time, NULL too; simultaneous ones are ordered as in `keyfold.operators`."""
    return Aggregate(_value(value), "last")


def count_distinct(value: str | pl.Expr, at_most: int = 10_000) -> Aggregate:
    """Count the different values, without NULL, exactly. State keeps them; more than `at_most` in a group raise an error."""
    return Aggregate(_value(value), "count_distinct", at_most=at_most)


def quantile(value: str | pl.Expr, q: float, at_most: int = 10_000) -> Aggregate:
    """Take a quantile of the values (0.5: the median), between two values in proportion; NULL if there are none.

    It is exact: state keeps the values, and more than `at_most` in a group raise an error.

    Raises:
        Misconfigured: `q` is not from 0 to 1.
    """
    if not isinstance(q, int | float) or not 0 <= q <= 1:
        raise Misconfigured(f"a quantile is from 0 to 1, such as 0.5 for the median, and not {q!r}")
    return Aggregate(_value(value), "quantile", at_most=at_most, q=q)


def collect(value: str | pl.Expr, at_most: int = 1_000) -> Aggregate:
    """List the values in order of event time, then of value; more than `at_most` in a group raise an error."""
    return Aggregate(_value(value), "collect", at_most=at_most)


def between(value: pl.Expr) -> Aggregate:
    """Sum a whole number of each two consecutive events; `pl.col("x").shift()` is of the earlier one. For sessions."""
    return Aggregate(value, "between")


def falls(value: str | pl.Expr) -> Aggregate:
    """Sum the falls between consecutive known values, whole and not negative; NULL if none is known. For `sessions_while`."""
    return Aggregate(_value(value), "falls")


def divided(value: pl.Expr, by: float) -> pl.Expr:
    """Divide whole numbers as Python does; Polars multiplies by the inverse of a constant, which sometimes differs by one bit."""
    return value / (value * 0 + by)


def distinct(value: str | pl.Expr, ignored: tuple[Any, ...] = ()) -> Aggregate:
    """Collect the set of the elements of lists, sorted, without NULLs and without `ignored`; for `running`."""
    return Aggregate(_value(value), "distinct", ignored)


IN_PARTS = ("count", "sum", "min", "max", "mean", "first", "last", "count_distinct", "quantile", "collect")
"""The aggregates that are kept in parts, in any order: of `windows`, `sessions`, `totals` and `top_of_windows`."""


def check_aggregates(of: Mapping[str, Aggregate]) -> None:
    """Check that values are aggregates.

    Raises:
        Misconfigured: one is none.
    """
    require("the aggregates", of, Mapping, "a dict of columns and aggregates, such as {'clicks': count()}")
    for name, one in of.items():
        require(name, one, Aggregate, "an aggregate, such as count() or sum('cents')")


def require_known(
    job: str, of: Mapping[str, Aggregate], known: Collection[str], operator: str = "this operator"
) -> None:
    """Check that an operator has these aggregates.

    Raises:
        Misconfigured: it lacks one.
    """
    check_aggregates(of)
    for name, one in of.items():
        if one.kind_of not in known:
            raise Misconfigured(f"job {job}: {name} is a {one.kind_of}; {operator} has {', '.join(known)}")


def means_as_sums(
    job: str, of: Mapping[str, Aggregate], taken: Collection[str]
) -> tuple[dict[str, Aggregate], dict[str, pl.Expr]]:
    """Return the aggregates with the sum and the number of values in place of each mean, and the means of these.

    Raises:
        Misconfigured: a column of this name is taken.
    """
    parts, means = dict[str, Aggregate](), dict[str, pl.Expr]()
    for name, one in of.items():
        if one.joined != "mean":
            parts[name] = one
            continue
        total, number = f"{name}_sum", f"{name}_n"
        if twice := [name for name in (total, number) if name in of or name in taken]:
            raise Misconfigured(f"job {job}: {twice[0]}: the mean {name} needs a column of this name; rename one")
        parts |= {total: Aggregate(one.value, "sum"), number: count(one.value.is_not_null())}
        means[name] = pl.when(pl.col(number) > 0).then(pl.col(total).cast(pl.Float64) / pl.col(number))
    return parts, means


def value_type(where: str, name: str, one: Aggregate, source: Input, output: pa.Schema) -> pl.DataType:
    """Return the type of the values of an aggregate: that of the column, or that of the table, or that of the expression.

    Raises:
        Misconfigured: a value is of a column that there is not, or has no order, where that is needed.
    """
    kind = _value_type(where, name, one, source, output)
    if one.joined in ("min", "max", "count_distinct") and kind.is_nested():
        raise Misconfigured(f"{where}: {kind} has no order; give a field of it, or another plain value")
    return kind


def _value_type(where: str, name: str, one: Aggregate, source: Input, output: pa.Schema) -> pl.DataType:
    # The event table and the declared output first: Polars starts threads, which a fork lacks.
    stream = source.stream.event_schema
    if one.column in stream.names and one.column not in source.derived:
        return polars_schema(stream)[one.column]
    if one.joined in ("sum", "min", "max") and (name in output.names or not one.column):
        field = (
            output.field(name) if name in output.names and one.kind is None else pa.field(name, one.kind or pa.int64())
        )
        return polars_schema(pa.schema([field]))[name]
    return type_in(where, one.value, readable(source))


def readable(source: Input) -> pa.Schema:
    """Return the columns that values may be of: those that the job reads, and all others of the table."""
    events = source.schema
    return pa.schema([*events, *(one for one in source.stream.event_schema if one.name not in events.names)])


def type_in(where: str, value: pl.Expr, columns: pa.Schema) -> pl.DataType:
    """Return the type of a value.

    Raises:
        Misconfigured: the value does not fit the columns.
    """
    known, names = polars_schema(columns), value.meta.root_names()
    if len(names) == 1 and names[0] in known and value.meta.eq(pl.col(names[0])):
        return known[names[0]]
    try:
        return type_of(value, known)
    except pl.exceptions.PolarsError as error:
        raise Misconfigured(f"{where}: {str(error).splitlines()[0]}; there are {', '.join(known)}") from None


def _value(value: str | pl.Expr) -> pl.Expr:
    return pl.col(value) if isinstance(value, str) else value
