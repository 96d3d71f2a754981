"""Evaluate the usual expectations on a few rows with Polars, in one pass over the table for all of a suite.

Great Expectations computes every metric of every expectation by itself, which takes far longer than to look at a few rows. The
meaning here is that of GX on Spark, with which the tests compare it. An expectation that might differ is not evaluated here.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import polars as pl

from keyfold.dagster.quality.samples import SAMPLED_ROWS, columns_of

if TYPE_CHECKING:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations import Expectation


@dataclass(frozen=True)
class _OfRows:
    """An expectation on each row: whether the row violates it, and the column without whose value the row does not count."""

    violated: pl.Expr
    needed: str | None


@dataclass(frozen=True)
class _OfTable:
    """An expectation on one number of the table."""

    number: pl.Expr


_Meaning = _OfRows | _OfTable | None


def is_usual(expectation: "Expectation", table: pl.DataFrame) -> bool:
    """Whether an expectation certainly has the same meaning here as in GX on Spark."""
    return _meaning(expectation, table) is not None


def evaluate_usual(
    table: pl.DataFrame, expectations: Mapping[str, "Expectation"]
) -> dict[str, tuple["ExpectationValidationResult", list[dict[str, Any]]]]:
    """Evaluate the expectations that are usual; return by name the result in GX's form, and the first violating rows."""
    meanings = {name: meaning for name, one in expectations.items() if (meaning := _meaning(one, table)) is not None}
    if not meanings:
        return {}
    numbers = table.select(
        (one.number if isinstance(one, _OfTable) else one.violated.sum().cast(pl.Int64)).alias(name)
        for name, one in meanings.items()
    ).row(0, named=True)
    found = {}
    for name, meaning in meanings.items():
        one, number = expectations[name], numbers[name]
        if isinstance(meaning, _OfTable):
            found[name] = _result(one, _is_as_wanted(one, number), {"observed_value": number}), []
        else:
            rows = table.filter(meaning.violated).head(SAMPLED_ROWS).to_dicts() if number else []
            missing = None if meaning.needed is None else table[meaning.needed].null_count()
            considered = table.height - (missing or 0)
            success = not considered or (considered - number) / considered >= _mostly(one)
            values = [tuple(row[column] for column in columns_of(one)) for row in rows]
            shown = {"partial_unexpected_list": [value[0] if len(value) == 1 else value for value in values]}
            found[name] = _result(one, success, _counts(table.height, missing, number) | shown), rows
    return found


def _counts(rows: int, missing: int | None, unexpected: int) -> dict[str, Any]:
    """Return the counts and shares of a result, as GX defines them."""
    considered = rows - (missing or 0)
    share = unexpected / considered * 100 if considered else None
    counts = {"element_count": rows, "unexpected_count": unexpected, "unexpected_percent": share}
    if missing is None:
        return counts
    return counts | {
        "missing_count": missing,
        "missing_percent": missing / rows * 100 if rows else None,
        "unexpected_percent_total": unexpected / rows * 100 if rows else None,
        "unexpected_percent_nonmissing": share,
    }


def _result(expectation: Any, success: bool, result: dict[str, Any]) -> "ExpectationValidationResult":
    from great_expectations.core import ExpectationValidationResult  # noqa: PLC0415 - takes seconds

    return ExpectationValidationResult(
        success=success,
        expectation_config=expectation.configuration,
        result=result,
        exception_info={"raised_exception": False, "exception_message": None, "exception_traceback": ""},
    )


def _meaning(expectation: Any, table: pl.DataFrame) -> _Meaning:
    """Return what an expectation says; None if that is not certain."""
    find = _MEANINGS.get(type(expectation).__name__)
    # GX's own class only: a subclass may do anything.
    if find is None or not type(expectation).__module__.startswith("great_expectations."):
        return None
    columns = dict.fromkeys(columns_of(expectation))
    # In Spark, a dot in a name refers to a field of a struct.
    if any("." in name or name not in table.columns for name in columns):
        return None
    if getattr(expectation, "row_condition", None) is not None or not _is_number(_mostly(expectation)):
        return None
    return find(expectation, table.select(list(columns)))


def _of_values(
    violated: Callable[[Any, pl.Expr, pl.DataType], pl.Expr | None],
) -> Callable[[Any, pl.DataFrame], _Meaning]:
    """Make the meaning of an expectation on the values of one column."""

    def find(expectation: Any, table: pl.DataFrame) -> _Meaning:
        ((name, kind),) = table.schema.items()
        # GX counts NaN on Spark, but leaves it out of samples.
        if kind.is_float() and table[name].is_nan().any():
            return None
        found = violated(expectation, pl.col(name), kind)
        return None if found is None else _OfRows(found & pl.col(name).is_not_null(), name)

    return find


def _not_unique(_: Any, column: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    return pl.len().over(column) > 1 if _is_simple(kind) else None


def _not_between(expectation: Any, column: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    if not (kind.is_integer() or kind.is_float()) or not _is_limited(expectation):
        return None
    # Spark widens 32-bit floats, and compares integers with fractions as 64-bit floats.
    is_exact = kind.is_integer() and float not in {type(expectation.min_value), type(expectation.max_value)}
    return ~_is_as_wanted(expectation, column.cast(pl.Int64 if is_exact else pl.Float64))


def _not_as_long(expectation: Any, column: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    is_certain = kind == pl.String and _is_limited(expectation)
    return ~_is_as_wanted(expectation, column.str.len_chars().cast(pl.Int64)) if is_certain else None


def _in_set(expectation: Any, column: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    values = expectation.value_set
    if not isinstance(values, list | tuple | set) or not values:
        return None
    if kind == pl.String and all(type(value) is str for value in values):
        return column.is_in(list(values))
    if kind.is_integer() and all(type(value) is int and _is_number(value) for value in values):
        return column.cast(pl.Int64).is_in(list(values))
    return None


def _not_in_set(expectation: Any, column: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    inside = _in_set(expectation, column, kind)
    return None if inside is None else ~inside


def _of_complete_rows(
    violated: Callable[[Any, list[str]], pl.Expr], *, of_pair: bool
) -> Callable[[Any, pl.DataFrame], _Meaning]:
    """Make the meaning of an expectation on several columns in which no value is missing; those of a pair have one type."""

    def find(expectation: Any, table: pl.DataFrame) -> _Meaning:
        is_certain = all(map(_is_simple, table.dtypes)) and not any(table.null_count().row(0))
        if not is_certain or (of_pair and (table.width != 2 or len(set(table.dtypes)) > 1)):
            return None
        return _OfRows(violated(expectation, table.columns), table.columns[0])

    return find


def _not_greater(expectation: Any, names: list[str]) -> pl.Expr:
    first, second = map(pl.col, names)
    return first < second if expectation.or_equal else first <= second


def _of_numbers(number: Callable[[pl.Expr], pl.Expr]) -> Callable[[Any, pl.DataFrame], _Meaning]:
    """Make the meaning of an expectation on one number of a column that has a value."""

    def find(expectation: Any, table: pl.DataFrame) -> _Meaning:
        column = table.to_series()
        is_number = column.dtype.is_integer() or (column.dtype == pl.Float64 and not column.is_nan().any())
        is_certain = is_number and column.null_count() < len(column) and _is_limited(expectation)
        return _OfTable(number(pl.col(column.name))) if is_certain else None

    return find


def _row_count(expectation: Any, _: pl.DataFrame) -> _Meaning:
    return _OfTable(pl.len().cast(pl.Int64)) if _is_limited(expectation) else None


def _is_as_wanted(expectation: Any, value: Any) -> Any:
    """Whether a number, or each number of a column, is the one that is wanted, or within the bounds."""
    if hasattr(expectation, "value"):
        return value == expectation.value
    least, most = expectation.min_value, expectation.max_value
    conditions = []
    if least is not None:
        conditions.append(value > least if getattr(expectation, "strict_min", False) else value >= least)
    if most is not None:
        conditions.append(value < most if getattr(expectation, "strict_max", False) else value <= most)
    return reduce(and_, conditions)


def _is_limited(expectation: Any) -> bool:
    """Whether an expectation wants a number, or has at least one bound, the lower one first."""
    wanted = [expectation.value] if hasattr(expectation, "value") else [expectation.min_value, expectation.max_value]
    given = [number for number in wanted if number is not None]
    return bool(given) and all(map(_is_number, given)) and given == sorted(given)


def _is_number(value: Any) -> bool:
    return (type(value) is int and abs(value) < 2**63) or (type(value) is float and math.isfinite(value))


def _is_simple(kind: pl.DataType) -> bool:
    return kind.is_integer() or kind.is_float() or kind in (pl.String, pl.Boolean, pl.Datetime, pl.Date)


def _mostly(expectation: Any) -> Any:
    return getattr(expectation, "mostly", 1)


_MEANINGS: dict[str, Callable[[Any, pl.DataFrame], _Meaning]] = {
    "ExpectColumnValuesToNotBeNull": lambda _, table: _OfRows(pl.col(table.columns).is_null(), None),
    "ExpectColumnValuesToBeNull": lambda _, table: _OfRows(pl.col(table.columns).is_not_null(), None),
    "ExpectColumnValuesToBeUnique": _of_values(_not_unique),
    "ExpectColumnValuesToBeBetween": _of_values(_not_between),
    "ExpectColumnValuesToBeInSet": _of_values(_not_in_set),
    "ExpectColumnValuesToNotBeInSet": _of_values(_in_set),
    "ExpectColumnValueLengthsToBeBetween": _of_values(_not_as_long),
    "ExpectColumnValueLengthsToEqual": _of_values(_not_as_long),
    "ExpectColumnPairValuesAToBeGreaterThanB": _of_complete_rows(_not_greater, of_pair=True),
    "ExpectColumnPairValuesToBeEqual": _of_complete_rows(
        lambda _, names: pl.col(names[0]) != pl.col(names[1]), of_pair=True
    ),
    "ExpectCompoundColumnsToBeUnique": _of_complete_rows(lambda _, names: pl.len().over(names) > 1, of_pair=False),
    # Spark adds 64-bit floats.
    "ExpectColumnMeanToBeBetween": _of_numbers(lambda column: column.cast(pl.Float64).mean()),
    "ExpectColumnMinToBeBetween": _of_numbers(pl.Expr.min),
    "ExpectColumnMaxToBeBetween": _of_numbers(pl.Expr.max),
    "ExpectTableRowCountToBeBetween": _row_count,
    "ExpectTableRowCountToEqual": _row_count,
}
