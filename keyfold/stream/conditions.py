"""Conditions on raw rows, which select the rows of a stream in a shared landing folder or topic.

A condition reads raw columns as text: text unchanged, another value as its JSON text (`2`, `true`, `{"a":1}`), and a missing
value as NULL. So it means the same in every format, whatever types the column has in other rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from keyfold.stream.raw_paths import EACH, path_of

Where = Mapping[str, str | Sequence[str]] | pl.Expr
"""Raw columns with the text, or the texts, that they must equal; or an expression on raw columns."""


def condition_columns(where: Where) -> tuple[str, ...]:
    """Return the raw columns that a condition reads."""
    return tuple(dict.fromkeys(where.meta.root_names())) if isinstance(where, pl.Expr) else tuple(where)


def as_expression(where: Where) -> pl.Expr:
    """Return the condition as an expression on columns of text; NULL counts as false.

    Example:
        >>> pl.DataFrame({"kind": ["click", "order", None]}).select(as_expression({"kind": "click"}))["kind"].to_list()
        [True, False, False]
    """
    if isinstance(where, pl.Expr):
        return where.fill_null(value=False)
    parts = [pl.col(name).is_in(_texts(values)) for name, values in where.items()]
    return pl.all_horizontal(parts).fill_null(value=False)


def fault_of(where: Where) -> str | None:
    """Say why a condition is invalid; None if it is valid."""
    names = condition_columns(where)
    if not names:
        return "it names no raw column"
    if deep := next((name for name in names if EACH in path_of(name)), None):
        return f"{deep} leads into each element of a list, and a condition is on the whole row"
    if not isinstance(where, pl.Expr):
        wrong = [name for name, values in where.items() if not _are_texts(values)]
        return f"{wrong[0]} must have a text, or several: numbers and true as their JSON text" if wrong else None
    try:
        kind = pl.DataFrame(schema=dict.fromkeys(names, pl.String)).select(held=where)["held"].dtype
    except pl.exceptions.PolarsError as error:
        return f"it does not fit columns of text ({str(error).splitlines()[0]})"
    return None if kind == pl.Boolean else f"it gives {kind}, and not true or false"


def both_hold(one: Where, other: Where) -> bool:
    """Whether two conditions provably hold for the same rows. Overlaps of other conditions are found row by row, at ingest."""
    if isinstance(one, pl.Expr) or isinstance(other, pl.Expr):
        return isinstance(one, pl.Expr) and isinstance(other, pl.Expr) and one.meta.eq(other)
    shared = one.keys() & other.keys()
    # If each condition names a column that the other does not, there may be no row that meets both.
    is_within = len(shared) in (len(one), len(other))
    return is_within and all(set(_texts(one[name])) & set(_texts(other[name])) for name in shared)


def _texts(values: str | Sequence[str]) -> list[str]:
    return [values] if isinstance(values, str) else list(values)


def _are_texts(values: Any) -> bool:
    if isinstance(values, str):
        return values != ""
    return isinstance(values, Sequence) and bool(values) and all(isinstance(one, str) for one in values)
