"""Plan how the frequent expectations are evaluated with Polars: what is counted, and which rows violate them.

The results are those of Great Expectations (GX) on pandas, with which the tests compare them, but for these:

- **NaN is a value** that is within no bounds and not above or below another. GX on pandas takes it as missing, so that a score
  that is NaN would be between 0 and 1.
- **Integers are exact.** pandas makes 64-bit floats of a column that has NULL.
- **Regular expressions are Rust's**, which take linear time; `$` is the end alone, and in Python also before a last newline. GX
  evaluates one that Rust lacks.
- **SQL is that of Polars**, also in a `row_condition`. GX has queries (`UnexpectedRowsExpectation`) on databases and Spark only.

GX evaluates an expectation that has no plan, and one that Polars refuses, such as a comparison of text with a number.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import polars as pl

from keyfold.dagster.quality.serialised import SerialisedExpectation, arguments_of, columns_of, run_query

_Arguments = Mapping[str, Any]


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


def plan_of(expectation: SerialisedExpectation, rows: pl.LazyFrame, schema: pl.Schema) -> Plan | None:
    """Return how an expectation on rows is evaluated; None if it is left to GX.

    Args:
        expectation: the expectation, without its `row_condition`; the table has its columns.
        rows: the rows that it is about.
        schema: their columns.

    Raises:
        Refused: its query is wrong, or reads a file.
    """
    arguments, names = arguments_of(expectation), columns_of(expectation)
    about, supported, says = _PLANS.get(str(expectation["type"]), ("", "", None))
    # GX refuses unknown fields and arguments, and says so.
    if not about or set(arguments) - set(supported.split()) or set(expectation) - _FIELDS:
        return None
    try:
        plan = _plan(about, arguments, rows, {name: schema[name] for name in names}, says)
        if plan is None or not 0 <= arguments.get("mostly", 1) <= 1:
            return None
        rows.select(**plan.numbers).collect_schema()
    except (KeyError, TypeError, pl.exceptions.PolarsError):  # of arguments that are missing or of a wrong type
        return None
    return plan


def _plan(about: str, arguments: _Arguments, rows: pl.LazyFrame, columns: Mapping[str, Any], says: Any) -> Plan | None:
    if about == "query":
        return Plan(rows, {}, run_query(arguments["unexpected_rows_query"], rows, rows.collect_schema()))
    if about == "number":
        # Of bounds that are no numbers, or none, this raises.
        _is_within(arguments, 0)
        number = says(*map(pl.col, columns))
        return Plan(rows, {"observed_value": number}) if all(kind.is_numeric() for kind in columns.values()) else None
    missing = {"missing_count": _count_of(all_missing(columns))}
    if about == "key":
        return Plan(rows, missing, unique=tuple(columns))
    if about == "null":
        bad, missing = pl.col(*columns).is_null(), {}
    else:
        temporal = [kind.is_temporal() for kind in columns.values()]
        if any(temporal) and temporal != [True, True]:
            return None  # Polars compares days with numbers, which GX refuses
        # Polars takes NaN as greater than any number, and as equal to itself.
        not_numbers = [pl.col(name).is_nan() for name, kind in columns.items() if kind.is_float()]
        bad = reduce(or_, not_numbers, says(arguments, *map(pl.col, columns)))
        # One value that is missing of two is not as wanted.
        bad = bad.fill_null(value=True) & ~all_missing(columns)
    return Plan(rows, {"unexpected_count": _count_of(bad), **missing}, rows.filter(bad))


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


def all_missing(names: Iterable[str]) -> pl.Expr:
    """Whether none of these columns has a value."""
    return pl.all_horizontal(pl.col(*names).is_null())


def _count_of(condition: pl.Expr) -> pl.Expr:
    return condition.sum().cast(pl.Int64)


def _is_within(arguments: _Arguments, value: Any) -> Any:
    """Whether a number, or each number of a column, is within the bounds."""
    least, most = arguments.get("min_value"), arguments.get("max_value")
    conditions = []
    if least is not None:
        conditions.append(value > least if arguments.get("strict_min") else value >= least)
    if most is not None:
        conditions.append(value < most if arguments.get("strict_max") else value <= most)
    return reduce(and_, conditions)


_FIELDS = {"type", "kwargs", "severity", "description", "meta", "notes"}
_BOUNDS = "min_value max_value strict_min strict_max"
_PLANS: dict[str, tuple[str, str, Callable[..., pl.Expr] | None]] = {
    "unexpected_rows_expectation": ("query", "unexpected_rows_query", None),
    "expect_column_values_to_not_be_null": ("null", "column mostly", None),
    "expect_column_values_to_be_unique": ("key", "column mostly", None),
    "expect_compound_columns_to_be_unique": ("key", "column_list mostly", None),
    "expect_column_values_to_be_between": (
        "rows",
        f"column mostly {_BOUNDS}",
        lambda arguments, column: ~_is_within(arguments, column),
    ),
    "expect_column_values_to_be_in_set": (
        "rows",
        "column mostly value_set",
        lambda arguments, column: ~column.is_in(arguments["value_set"]),
    ),
    "expect_column_values_to_not_be_in_set": (
        "rows",
        "column mostly value_set",
        lambda arguments, column: column.is_in(arguments["value_set"]),
    ),
    "expect_column_values_to_match_regex": (
        "rows",
        "column mostly regex",
        lambda arguments, column: ~column.str.contains(arguments["regex"]),
    ),
    "expect_column_pair_values_a_to_be_greater_than_b": (
        "rows",
        "column_A column_B mostly or_equal",
        lambda arguments, a, b: ~(a >= b if arguments.get("or_equal") else a > b),
    ),
    "expect_column_mean_to_be_between": ("number", f"column {_BOUNDS}", lambda values: values.cast(pl.Float64).mean()),
    "expect_column_min_to_be_between": ("number", f"column {_BOUNDS}", pl.Expr.nan_min),
    "expect_column_max_to_be_between": ("number", f"column {_BOUNDS}", pl.Expr.nan_max),
    "expect_table_row_count_to_be_between": ("number", _BOUNDS, lambda: pl.len().cast(pl.Int64)),
}
"""What each is about, its arguments, and what it says of columns: that a row violates it, or a number."""
