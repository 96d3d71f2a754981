"""Decide which expectations have the same meaning on pandas as on Spark, given a table's columns.

pandas and Spark differ: NaN is null in pandas and the largest number in Spark; comparison with null is false or null; text
compares with numbers in one of them only; only one widens 32-bit floats; regular expressions are Python's or Java's. An
expectation that may differ is evaluated on Spark, which is slower but correct.
"""

from collections.abc import Callable, Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from great_expectations.expectations import Expectation

_LARGEST_EXACT_INTEGER = 2**53
"""pandas stores integers with nulls as 64-bit floats, which are exact up to this value."""


def same_on_pandas(expectation: "Expectation", table: pa.Table) -> bool:
    """Whether an expectation certainly gives the same result on pandas as on Spark."""
    # GX's own class only: a subclass may do anything.
    certain = _CERTAIN.get(type(expectation).__name__)
    if certain is None or not type(expectation).__module__.startswith("great_expectations."):
        return False
    if getattr(expectation, "row_condition", None) is not None:
        return False
    return certain(expectation, table)


def _each_value(holds: Callable[[Any, pa.ChunkedArray], bool]) -> Callable[[Any, pa.Table], bool]:
    def certain(expectation: Any, table: pa.Table) -> bool:
        column = _column(table, expectation.column)
        return column is not None and holds(expectation, column)

    return certain


def _columns_without_nulls(names: Callable[[Any], Iterable[str]], *, one_type: bool) -> Callable[[Any, pa.Table], bool]:
    def certain(expectation: Any, table: pa.Table) -> bool:
        columns = [_column(table, name) for name in names(expectation)]
        present = [column for column in columns if column is not None and column.null_count == 0]
        return len(present) == len(columns) and (not one_type or len({str(column.type) for column in present}) == 1)

    return certain


def _any_value(_: Any, __: pa.ChunkedArray) -> bool:
    return True


def _between_numbers(expectation: Any, column: pa.ChunkedArray) -> bool:
    return _is_number(column.type) and all(
        bound is None or (isinstance(bound, Real) and not isinstance(bound, bool))
        for bound in (expectation.min_value, expectation.max_value)
    )


def _aggregate_of_numbers(expectation: Any, column: pa.ChunkedArray) -> bool:
    # With nulls, integers would become floats. Without any value, Spark gives null and pandas NaN.
    whole = column.null_count == 0 or pa.types.is_floating(column.type)
    return _between_numbers(expectation, column) and whole and column.null_count < len(column)


def _in_set_of_its_type(expectation: Any, column: pa.ChunkedArray) -> bool:
    wanted = str if _is_text(column.type) else int if pa.types.is_integer(column.type) else None
    values = expectation.value_set
    return (
        wanted is not None
        and isinstance(values, list | tuple | set)
        and len(values) > 0
        and all(type(value) is wanted for value in values)
    )


def _text(_: Any, column: pa.ChunkedArray) -> bool:
    return _is_text(column.type)


def _column(table: pa.Table, name: Any) -> pa.ChunkedArray | None:
    """Return a column of plain values that pandas keeps unchanged, else None."""
    # In Spark, a dot in a name refers to a field of a struct.
    if not isinstance(name, str) or "." in name or name not in table.column_names:
        return None
    column = table.column(name)
    kind = column.type
    if pa.types.is_float64(kind):
        return column if not pc.call_function("any", [pc.call_function("is_nan", [column])]).as_py() else None
    if pa.types.is_integer(kind) and column.null_count:
        ends = pc.call_function("min_max", [column]).as_py()
        exact = all(abs(end or 0) <= _LARGEST_EXACT_INTEGER for end in ends.values())
        return column if exact else None
    plain = pa.types.is_integer(kind) or _is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind)
    return column if plain else None


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_float64(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


_CERTAIN: dict[str, Callable[[Any, pa.Table], bool]] = {
    "ExpectColumnValuesToNotBeNull": _each_value(_any_value),
    "ExpectColumnValuesToBeNull": _each_value(_any_value),
    "ExpectColumnValuesToBeUnique": _each_value(_any_value),
    "ExpectColumnValuesToBeBetween": _each_value(_between_numbers),
    "ExpectColumnValuesToBeInSet": _each_value(_in_set_of_its_type),
    "ExpectColumnValuesToNotBeInSet": _each_value(_in_set_of_its_type),
    "ExpectColumnValueLengthsToBeBetween": _each_value(_text),
    "ExpectColumnValueLengthsToEqual": _each_value(_text),
    "ExpectColumnPairValuesAToBeGreaterThanB": _columns_without_nulls(
        lambda expectation: (expectation.column_A, expectation.column_B), one_type=True
    ),
    "ExpectColumnPairValuesToBeEqual": _columns_without_nulls(
        lambda expectation: (expectation.column_A, expectation.column_B), one_type=True
    ),
    "ExpectCompoundColumnsToBeUnique": _columns_without_nulls(
        lambda expectation: expectation.column_list, one_type=False
    ),
    "ExpectColumnMeanToBeBetween": _each_value(_aggregate_of_numbers),
    "ExpectColumnMinToBeBetween": _each_value(_aggregate_of_numbers),
    "ExpectColumnMaxToBeBetween": _each_value(_aggregate_of_numbers),
    "ExpectTableRowCountToBeBetween": lambda _, __: True,
    "ExpectTableRowCountToEqual": lambda _, __: True,
}
