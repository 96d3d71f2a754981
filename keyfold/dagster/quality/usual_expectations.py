"""Evaluate the usual expectations on a few rows with Polars, in one pass over the table for all of a suite.

Great Expectations computes every metric of every expectation by itself, which takes far longer than to look at a few rows, and
takes seconds to import. The meaning here is that of GX on Spark, with which the tests compare it. An expectation that might
differ has no meaning here. Regular expressions are Java's, so Spark finds the rows that do not match.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_
from typing import Any

import polars as pl

from keyfold.dagster.quality.outcome import Outcome
from keyfold.dagster.quality.row_queries import Violations
from keyfold.dagster.quality.samples import SAMPLED_ROWS, Sampling, columns_of
from keyfold.dagster.quality.serialised import SEVERITIES, SerialisedExpectation, arguments_of, severity_of

_Arguments = Mapping[str, Any]
_FIELDS = {"type", "kwargs", "severity", "description", "meta", "notes"}


@dataclass(frozen=True)
class OfRows:
    """An expectation on each row: an expression or a query that finds the rows that violate it, and the column that they have."""

    violated: pl.Expr | str
    needed: str | None


@dataclass(frozen=True)
class OfTable:
    """An expectation on one number of the table."""

    number: pl.Expr


Meaning = OfRows | OfTable


def meaning_of(expectation: SerialisedExpectation, table: pl.DataFrame) -> Meaning | None:
    """Return what an expectation says of a table; None if it is not certain that GX says the same on Spark."""
    arguments = arguments_of(expectation)
    known, find = _MEANINGS.get(str(expectation["type"]), ("", None))
    # GX refuses unknown fields and arguments.
    if find is None or set(arguments) - set(known.split()) or set(expectation) - _FIELDS:
        return None
    if severity_of(expectation) not in SEVERITIES or not _are_certain(arguments):
        return None
    columns = dict.fromkeys(columns_of(expectation))
    # In Spark, a dot in a name refers to a field of a struct.
    if any("." in name or name not in table.columns for name in columns):
        return None
    return find(arguments, table.select(list(columns)))


def evaluate_usual(
    table: pl.DataFrame,
    expectations: Mapping[str, SerialisedExpectation],
    meanings: Mapping[str, Meaning],
    violations: Mapping[str, Violations],
    sampling: Sampling,
) -> dict[str, Outcome]:
    """Evaluate expectations whose meaning is known; return the outcomes by name, with samples.

    Args:
        table: the rows.
        expectations: the expectations by name.
        meanings: what they say, by name.
        violations: what the queries among the meanings found, by name.
        sampling: how violating rows are shown.
    """
    found, wanted = {}, {name: number for name, one in meanings.items() if (number := _number(one)) is not None}
    numbers = table.select(one.alias(name) for name, one in wanted.items()).row(0, named=True) if wanted else {}
    for name, meaning in meanings.items():
        one, seen = expectations[name], Violations()
        if isinstance(meaning, OfTable):
            number = numbers[name]
            # Without any value there is no mean, which is not as wanted.
            success = number is not None and bool(_is_as_wanted(arguments_of(one), number))
            found[name] = Outcome(name, one, success, {"observed_value": number})
        else:
            by = meaning.violated
            seen = violations[name] if isinstance(by, str) else _violations(table, by, numbers[name])
            found[name] = _outcome(name, one, table, meaning, seen)
        sampling.show(found[name], seen.rows)
    return found


def _number(meaning: Meaning) -> pl.Expr | None:
    """Return what counts the violating rows, or is the number of the table; None where Spark counts."""
    if isinstance(meaning, OfTable):
        return meaning.number
    return None if isinstance(meaning.violated, str) else meaning.violated.sum().cast(pl.Int64)


def _violations(table: pl.DataFrame, violated: pl.Expr, number: int) -> Violations:
    return Violations(number, table.filter(violated).head(SAMPLED_ROWS).to_dicts() if number else [])


def _outcome(
    name: str, expectation: SerialisedExpectation, table: pl.DataFrame, meaning: OfRows, seen: Violations
) -> Outcome:
    """Return the outcome of an expectation on rows, with counts and shares as GX defines them."""
    if seen.problem:
        return Outcome(name, expectation, success=False, problem=seen.problem)
    rows, unexpected = table.height, seen.number
    missing = 0 if meaning.needed is None else table[meaning.needed].null_count()
    considered = rows - missing
    share = unexpected / considered * 100 if considered else None
    columns = columns_of(expectation)
    values = [tuple(row[column] for column in columns) for row in seen.rows[:SAMPLED_ROWS]]
    result: dict[str, Any] = {
        "element_count": rows,
        "unexpected_count": unexpected,
        "unexpected_percent": share,
        "partial_unexpected_list": [value[0] if len(value) == 1 else value for value in values],
    }
    if meaning.needed is not None:
        result |= {
            "missing_count": missing,
            "missing_percent": missing / rows * 100 if rows else None,
            "unexpected_percent_total": unexpected / rows * 100 if rows else None,
            "unexpected_percent_nonmissing": share,
        }
    mostly = arguments_of(expectation).get("mostly", 1)
    return Outcome(name, expectation, not considered or (considered - unexpected) / considered >= mostly, result)


def _of_values(
    violated: Callable[[_Arguments, pl.Expr, pl.DataType], pl.Expr | None],
) -> Callable[[_Arguments, pl.DataFrame], Meaning | None]:
    """Make the meaning of an expectation on the values of one column."""

    def find(arguments: _Arguments, table: pl.DataFrame) -> Meaning | None:
        ((name, kind),) = table.schema.items()
        # GX counts NaN on Spark, but leaves it out of samples.
        if kind.is_float() and table[name].is_nan().any():
            return None
        found = violated(arguments, pl.col(name), kind)
        return None if found is None else OfRows(found & pl.col(name).is_not_null(), name)

    return find


def _not_unique(_: _Arguments, column: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    return pl.len().over(column) > 1 if _is_simple(kind) else None


def _not_between(arguments: _Arguments, column: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    # GX takes bounds as 64-bit floats, and Spark widens what it compares with them.
    is_certain = (kind.is_integer() or kind.is_float()) and _is_limited(arguments)
    return ~_is_as_wanted(arguments, column.cast(pl.Float64)) if is_certain else None


def _not_as_long(arguments: _Arguments, column: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    is_certain = kind == pl.String and _is_limited(arguments, by_integers=True)
    return ~_is_as_wanted(arguments, column.str.len_chars().cast(pl.Int64)) if is_certain else None


def _in_set(arguments: _Arguments, column: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    values = arguments.get("value_set")
    if not isinstance(values, list) or not values:
        return None
    if kind == pl.String and all(type(value) is str for value in values):
        return column.is_in(values)
    if kind.is_integer() and all(type(value) is int and _is_number(value) for value in values):
        return column.cast(pl.Int64).is_in(values)
    return None


def _not_in_set(arguments: _Arguments, column: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    inside = _in_set(arguments, column, kind)
    return None if inside is None else ~inside


def _of_pattern(arguments: _Arguments, table: pl.DataFrame, *, wanted: bool) -> Meaning | None:
    ((name, kind),) = table.schema.items()
    if kind != pl.String or type(arguments.get("regex")) is not str:
        return None
    column = f"`{name.replace('`', '``')}`".replace("{", "{{").replace("}", "}}")
    # In hexadecimal: how to quote a text depends on the session's settings.
    pattern = f"CAST(unhex('{arguments['regex'].encode().hex()}') AS STRING)"
    condition = f"{column} IS NOT NULL AND {'NOT ' if wanted else ''}{column} RLIKE {pattern}"
    return OfRows(f"SELECT * FROM {{batch}} WHERE {condition}", name)  # noqa: S608 - a column's name, quoted


def _of_complete_rows(
    violated: Callable[[_Arguments, list[str]], pl.Expr], *, of_pair: bool
) -> Callable[[_Arguments, pl.DataFrame], Meaning | None]:
    """Make the meaning of an expectation on several columns in which no value is missing; those of a pair have one type."""

    def find(arguments: _Arguments, table: pl.DataFrame) -> Meaning | None:
        is_certain = all(map(_is_simple, table.dtypes)) and not any(table.null_count().row(0))
        if not is_certain or (of_pair and (table.width != 2 or len(set(table.dtypes)) > 1)):
            return None
        return OfRows(violated(arguments, table.columns), table.columns[0])

    return find


def _not_greater(arguments: _Arguments, names: list[str]) -> pl.Expr:
    first, second = map(pl.col, names)
    return first < second if arguments.get("or_equal") else first <= second


def _of_numbers(number: Callable[[pl.Expr], pl.Expr]) -> Callable[[_Arguments, pl.DataFrame], Meaning | None]:
    """Make the meaning of an expectation on one number of a column."""

    def find(arguments: _Arguments, table: pl.DataFrame) -> Meaning | None:
        column = table.to_series()
        is_number = column.dtype in (pl.Int32, pl.Int64) or (column.dtype == pl.Float64 and not column.is_nan().any())
        return OfTable(number(pl.col(column.name))) if is_number and _is_limited(arguments) else None

    return find


def _row_count(arguments: _Arguments, _: pl.DataFrame) -> Meaning | None:
    return OfTable(pl.len().cast(pl.Int64)) if _is_limited(arguments, by_integers=True) else None


def _is_as_wanted(arguments: _Arguments, value: Any) -> Any:
    """Whether a number, or each number of a column, is the one that is wanted, or within the bounds."""
    if "value" in arguments:
        return value == arguments["value"]
    least, most = arguments.get("min_value"), arguments.get("max_value")
    conditions = []
    if least is not None:
        conditions.append(value > least if arguments.get("strict_min") else value >= least)
    if most is not None:
        conditions.append(value < most if arguments.get("strict_max") else value <= most)
    return reduce(and_, conditions)


def _is_limited(arguments: _Arguments, *, by_integers: bool = False) -> bool:
    """Whether an expectation wants a number, or has at least one bound, the lower one first."""
    given = [one for name in ("value", "min_value", "max_value") if (one := arguments.get(name)) is not None]
    return (
        bool(given)
        and all(_is_number(one) and (type(one) is int or not by_integers) for one in given)
        and given == sorted(given)
    )


def _is_number(value: Any) -> bool:
    return (type(value) is int and abs(value) < 2**63) or (type(value) is float and math.isfinite(value))


def _is_simple(kind: pl.DataType) -> bool:
    return kind.is_integer() or kind.is_float() or kind in (pl.String, pl.Boolean, pl.Datetime, pl.Date)


def _are_certain(arguments: _Arguments) -> bool:
    """Whether GX takes the arguments that several expectations have."""
    mostly = arguments.get("mostly", 1)
    names = [*(arguments.get("column_list") or ()), *(arguments[key] for key in _COLUMNS if key in arguments)]
    return (
        (_is_number(mostly) and 0 <= mostly <= 1)
        and all(type(arguments.get(key, False)) is bool for key in ("strict_min", "strict_max", "or_equal"))
        and all(type(name) is str for name in names)
        and isinstance(arguments.get("column_list", []), list)
    )


_COLUMNS = ("column", "column_A", "column_B")
_BOUNDS = "min_value max_value strict_min strict_max"
_MEANINGS: dict[str, tuple[str, Callable[[_Arguments, pl.DataFrame], Meaning | None]]] = {
    "expect_column_values_to_not_be_null": (
        "column mostly",
        lambda _, table: OfRows(pl.col(table.columns).is_null(), None),
    ),
    "expect_column_values_to_be_null": (
        "column mostly",
        lambda _, table: OfRows(pl.col(table.columns).is_not_null(), None),
    ),
    "expect_column_values_to_be_unique": ("column mostly", _of_values(_not_unique)),
    "expect_column_values_to_be_between": (f"column mostly {_BOUNDS}", _of_values(_not_between)),
    "expect_column_values_to_be_in_set": ("column mostly value_set", _of_values(_not_in_set)),
    "expect_column_values_to_not_be_in_set": ("column mostly value_set", _of_values(_in_set)),
    "expect_column_values_to_match_regex": ("column mostly regex", partial(_of_pattern, wanted=True)),
    "expect_column_values_to_not_match_regex": ("column mostly regex", partial(_of_pattern, wanted=False)),
    "expect_column_value_lengths_to_be_between": (f"column mostly {_BOUNDS}", _of_values(_not_as_long)),
    "expect_column_value_lengths_to_equal": ("column mostly value", _of_values(_not_as_long)),
    "expect_column_pair_values_a_to_be_greater_than_b": (
        "column_A column_B mostly or_equal",
        _of_complete_rows(_not_greater, of_pair=True),
    ),
    "expect_column_pair_values_to_be_equal": (
        "column_A column_B mostly",
        _of_complete_rows(lambda _, names: pl.col(names[0]) != pl.col(names[1]), of_pair=True),
    ),
    "expect_compound_columns_to_be_unique": (
        "column_list mostly",
        _of_complete_rows(lambda _, names: pl.len().over(names) > 1, of_pair=False),
    ),
    # Spark adds 64-bit floats.
    "expect_column_mean_to_be_between": (
        f"column {_BOUNDS}",
        _of_numbers(lambda column: column.cast(pl.Float64).mean()),
    ),
    "expect_column_min_to_be_between": (f"column {_BOUNDS}", _of_numbers(pl.Expr.min)),
    "expect_column_max_to_be_between": (f"column {_BOUNDS}", _of_numbers(pl.Expr.max)),
    "expect_table_row_count_to_be_between": (_BOUNDS, _row_count),
    "expect_table_row_count_to_equal": ("value", _row_count),
}
