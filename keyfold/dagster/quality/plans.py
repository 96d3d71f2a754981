"""Plan how the frequent expectations are evaluated with Polars: what is counted, and which rows violate them.

The results are those of Great Expectations (GX) on pandas, with which the tests compare them, but for these:

- **NaN is a value** that is within no bounds and not above or below another. GX on pandas takes it as missing, so that a score
  that is NaN would be between 0 and 1.
- **Integers are exact.** pandas makes 64-bit floats of a column that has NULL.
- **NULL satisfies no comparison** of a `row_condition`, as in SQL; in pandas it satisfies `!=`.
- **Regular expressions are Rust's**, which take linear time; `$` is the end alone, and in Python also before a last newline.
- **SQL is that of Polars.** GX has queries (`UnexpectedRowsExpectation`) on databases and Spark only.

An expectation that might differ otherwise has no plan, and GX evaluates it.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import polars as pl

from keyfold.dagster.quality.serialised import (
    SerialisedExpectation,
    arguments_of,
    columns_of,
    condition_in,
    row_expression,
    run_query,
)

_Arguments = Mapping[str, Any]
_Columns = Mapping[str, pl.DataType]
_Find = Callable[[_Arguments, pl.LazyFrame, _Columns, pl.Schema], "Plan | None"]
TIMES = "__times"
"""Column with the number of rows that have a key."""


@dataclass(frozen=True)
class Plan:
    """How an expectation is evaluated.

    Attributes:
        rows: the rows that it is about.
        numbers: what is counted over them in one pass, with GX's names; nothing where the rows of a query are counted.
        violating: the rows that violate it, or what its query gives; None where they are not found row by row.
        unique: columns of which no two rows may have the same values; none for another expectation.
    """

    rows: pl.LazyFrame
    numbers: Mapping[str, pl.Expr]
    violating: pl.LazyFrame | None = None
    unique: tuple[str, ...] = ()

    def repeated(self, part: int, parts: int) -> pl.LazyFrame:
        """Return the values of `unique` that several rows have, of one of so many parts of all values, with these rows' number."""
        names = list(self.unique)
        chosen = self.rows.select(names).filter(~_all_missing(names))
        if parts > 1:
            chosen = chosen.filter(pl.struct(names).hash() % parts == part)
        return chosen.group_by(names).len(TIMES).filter(pl.col(TIMES) > 1)


def plan_of(expectation: SerialisedExpectation, rows: pl.LazyFrame, schema: pl.Schema) -> Plan | None:
    """Return how an expectation on rows is evaluated; None if it is not certain that GX would say the same.

    Args:
        expectation: the expectation, without its `row_condition`; the table has its columns.
        rows: the rows that it is about.
        schema: their columns.

    Raises:
        Refused: its query is wrong, or reads a file.
    """
    arguments = arguments_of(expectation)
    known, find = _PLANS.get(str(expectation["type"]), ("", None))
    # GX refuses unknown fields and arguments.
    if find is None or set(arguments) - set(known.split()) or set(expectation) - _FIELDS or not _are_certain(arguments):
        return None
    return find(arguments, rows, {name: schema[name] for name in columns_of(expectation)}, schema)


def holds(expectation: SerialisedExpectation, numbers: Mapping[str, Any]) -> bool:
    """Whether an expectation that has a plan holds, by its numbers with GX's names."""
    arguments = arguments_of(expectation)
    if "unexpected_count" in numbers:
        considered = numbers["element_count"] - numbers.get("missing_count", 0)
        return not considered or (considered - numbers["unexpected_count"]) / considered >= arguments.get("mostly", 1)
    observed = numbers["observed_value"]
    if "unexpected_rows_query" in arguments:
        return not observed
    # Without any value there is no mean, which is not as wanted.
    return observed is not None and bool(_is_within(arguments, observed))


def _of_null(_: _Arguments, rows: pl.LazyFrame, columns: _Columns, __: pl.Schema) -> Plan | None:
    if len(columns) != 1:
        return None
    is_null = pl.col(*columns).is_null()
    return Plan(rows, {"unexpected_count": _count_of(is_null)}, rows.filter(is_null))


def _of_uniqueness(_: _Arguments, rows: pl.LazyFrame, columns: _Columns, __: pl.Schema) -> Plan | None:
    if not columns or not all(map(_is_simple, columns.values())):
        return None
    return Plan(rows, {"missing_count": _count_of(_all_missing(columns))}, unique=tuple(columns))


def _of_rows(is_certain: Callable[..., bool], violated: Callable[..., pl.Expr]) -> _Find:
    """Make the plan of an expectation on the values of each row, which are missing where all are."""

    def find(arguments: _Arguments, rows: pl.LazyFrame, columns: _Columns, _: pl.Schema) -> Plan | None:
        if not columns or not is_certain(arguments, *columns.values()):
            return None
        # Polars takes NaN as greater than any number, and as equal to itself.
        not_numbers = [pl.col(name).is_nan() for name, kind in columns.items() if kind.is_float()]
        bad = reduce(or_, not_numbers, violated(arguments, *map(pl.col, columns)))
        # One value that is missing of two is not as wanted.
        bad = bad.fill_null(value=True) & ~_all_missing(columns)
        numbers = {"unexpected_count": _count_of(bad), "missing_count": _count_of(_all_missing(columns))}
        return Plan(rows, numbers, rows.filter(bad))

    return find


def _of_number(number: Callable[..., pl.Expr], number_of_columns: int = 1) -> _Find:
    """Make the plan of an expectation on one number of a column, or of the table."""

    def find(arguments: _Arguments, rows: pl.LazyFrame, columns: _Columns, _: pl.Schema) -> Plan | None:
        is_certain = len(columns) == number_of_columns and all(map(_is_number_kind, columns.values()))
        if not is_certain or not _is_limited(arguments):
            return None
        return Plan(rows, {"observed_value": number(*map(pl.col, columns))})

    return find


def _of_query(arguments: _Arguments, rows: pl.LazyFrame, _: _Columns, schema: pl.Schema) -> Plan | None:
    query = arguments.get("unexpected_rows_query")
    if query is None:
        return None
    condition = condition_in(query)
    violated = None if condition is None else row_expression(condition, schema)
    # A condition on no column is one value for all rows, however many.
    if violated is None or not violated.meta.root_names():
        return Plan(rows, {}, run_query(query, rows, schema))
    return Plan(rows, {"observed_value": _count_of(violated)}, rows.filter(violated))


def _count_of(condition: pl.Expr) -> pl.Expr:
    return condition.sum().cast(pl.Int64)


def _all_missing(names: Iterable[str]) -> pl.Expr:
    return pl.all_horizontal(pl.col(*names).is_null())


def _is_within(arguments: _Arguments, value: Any) -> Any:
    """Whether a number, or each number of a column, is within the bounds."""
    least, most = arguments.get("min_value"), arguments.get("max_value")
    conditions = []
    if least is not None:
        conditions.append(value > least if arguments.get("strict_min") else value >= least)
    if most is not None:
        conditions.append(value < most if arguments.get("strict_max") else value <= most)
    return reduce(and_, conditions)


def _is_limited(arguments: _Arguments) -> bool:
    """Whether an expectation has at least one bound, the lower one first."""
    given = [one for name in ("min_value", "max_value") if (one := arguments.get(name)) is not None]
    return bool(given) and all(map(_is_number, given)) and given == sorted(given)


def _is_set(arguments: _Arguments, kind: pl.DataType) -> bool:
    values = arguments.get("value_set")
    if not isinstance(values, list) or not values:
        return False
    if kind.is_integer():
        return all(type(value) is int and _is_number(value) for value in values)
    return kind == pl.String and all(type(value) is str for value in values)


def _is_pattern(arguments: _Arguments, kind: pl.DataType) -> bool:
    if kind != pl.String or type(arguments.get("regex")) is not str:
        return False
    try:
        pl.Series([""]).str.contains(arguments["regex"])
    except pl.exceptions.PolarsError:
        return False
    return True


def _are_alike(_: _Arguments, *kinds: pl.DataType) -> bool:
    return len(kinds) == 2 and (all(map(_is_number_kind, kinds)) or (kinds[0] == kinds[1] and _is_simple(kinds[0])))


def _is_number(value: Any) -> bool:
    return (type(value) is int and abs(value) < 2**63) or (type(value) is float and math.isfinite(value))


def _is_number_kind(kind: pl.DataType) -> bool:
    return kind.is_integer() or kind == pl.Float64


def _is_simple(kind: pl.DataType) -> bool:
    return kind.is_integer() or kind.is_float() or kind in (pl.String, pl.Boolean, pl.Datetime, pl.Date)


def _are_certain(arguments: _Arguments) -> bool:
    """Whether GX takes the arguments that several expectations have."""
    mostly, texts = arguments.get("mostly", 1), ("column", "column_A", "column_B", "unexpected_rows_query")
    return (
        (_is_number(mostly) and 0 <= mostly <= 1)
        and all(type(arguments.get(key, False)) is bool for key in ("strict_min", "strict_max", "or_equal"))
        and all(type(arguments.get(key, "")) is str for key in texts)
        and all(type(name) is str for name in arguments.get("column_list", ()))
    )


_FIELDS = {"type", "kwargs", "severity", "description", "meta", "notes"}
_BOUNDS = "min_value max_value strict_min strict_max"
_PLANS: dict[str, tuple[str, _Find]] = {
    "unexpected_rows_expectation": ("unexpected_rows_query", _of_query),
    "expect_column_values_to_not_be_null": ("column mostly", _of_null),
    "expect_column_values_to_be_unique": ("column mostly", _of_uniqueness),
    "expect_compound_columns_to_be_unique": ("column_list mostly", _of_uniqueness),
    "expect_column_values_to_be_between": (
        f"column mostly {_BOUNDS}",
        _of_rows(
            lambda arguments, kind: _is_number_kind(kind) and _is_limited(arguments),
            lambda arguments, column: ~_is_within(arguments, column),
        ),
    ),
    "expect_column_values_to_be_in_set": (
        "column mostly value_set",
        _of_rows(_is_set, lambda arguments, column: ~column.is_in(arguments["value_set"])),
    ),
    "expect_column_values_to_not_be_in_set": (
        "column mostly value_set",
        _of_rows(_is_set, lambda arguments, column: column.is_in(arguments["value_set"])),
    ),
    "expect_column_values_to_match_regex": (
        "column mostly regex",
        _of_rows(_is_pattern, lambda arguments, column: ~column.str.contains(arguments["regex"])),
    ),
    "expect_column_pair_values_a_to_be_greater_than_b": (
        "column_A column_B mostly or_equal",
        _of_rows(_are_alike, lambda arguments, a, b: ~(a >= b if arguments.get("or_equal") else a > b)),
    ),
    "expect_column_mean_to_be_between": (f"column {_BOUNDS}", _of_number(lambda one: one.cast(pl.Float64).mean())),
    "expect_column_min_to_be_between": (f"column {_BOUNDS}", _of_number(pl.Expr.nan_min)),
    "expect_column_max_to_be_between": (f"column {_BOUNDS}", _of_number(pl.Expr.nan_max)),
    "expect_table_row_count_to_be_between": (_BOUNDS, _of_number(lambda: pl.len().cast(pl.Int64), 0)),
}
