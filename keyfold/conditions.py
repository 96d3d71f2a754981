"""Conditions on raw rows: which rows of a shared landing folder or topic belong to a stream.

A condition sees each raw column that it names as text: a text as it is, another value as its JSON text (`2`, `true`,
`{"a":1}`), and NULL where there is none. So it means the same in every format, whatever types other rows have there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from keyfold.raw_paths import EACH, path_of

Where = Mapping[str, str | Sequence[str]] | pl.Expr
"""Raw columns with the text, or the texts, that they must have; or an expression on raw columns."""


def condition_columns(where: Where) -> tuple[str, ...]:
    """The raw columns that a condition looks at."""
    return tuple(dict.fromkeys(where.meta.root_names())) if isinstance(where, pl.Expr) else tuple(where)


def as_expression(where: Where) -> pl.Expr:
    """The condition on columns of text; false where it is NULL.

    Example:
        >>> pl.DataFrame({"kind": ["click", "order", None]}).select(as_expression({"kind": "click"}))["kind"].to_list()
        [True, False, False]
    """
    if isinstance(where, pl.Expr):
        return where.fill_null(value=False)
    parts = [pl.col(name).is_in(_texts(values)) for name, values in where.items()]
    return pl.all_horizontal(parts).fill_null(value=False)


def fault_of(where: Where) -> str | None:
    """Why a condition is none; None where it is one."""
    names = condition_columns(where)
    if not names:
        return "it names no raw column"
    if deep := next((name for name in names if EACH in path_of(name)), None):
        return f"{deep} leads into each element of a list, and a condition is on the whole row"
    if not isinstance(where, pl.Expr):
        wrong = [name for name, values in where.items() if not _are_texts(values)]
        return f"{wrong[0]} must have a text, or several: numbers and true as their JSON text" if wrong else None
    try:
        found = pl.DataFrame(schema=dict.fromkeys(names, pl.String)).select(held=where)["held"].dtype
    except pl.exceptions.PolarsError as error:
        return f"it does not go with columns of text ({str(error).splitlines()[0]})"
    return None if found == pl.Boolean else f"it gives {found}, and not true or false"


def both_hold(one: Where, other: Where) -> bool:
    """Whether it can be seen that two conditions hold for the same rows; where it cannot, rows will show it."""
    if isinstance(one, pl.Expr) or isinstance(other, pl.Expr):
        return isinstance(one, pl.Expr) and isinstance(other, pl.Expr) and one.meta.eq(other)
    shared = one.keys() & other.keys()
    # Where each has a column of its own, no row need have both.
    is_within = len(shared) in (len(one), len(other))
    return is_within and all(set(_texts(one[name])) & set(_texts(other[name])) for name in shared)


def _texts(values: str | Sequence[str]) -> list[str]:
    return [values] if isinstance(values, str) else list(values)


def _are_texts(values: Any) -> bool:
    if isinstance(values, str):
        return values != ""
    return isinstance(values, Sequence) and bool(values) and all(isinstance(one, str) for one in values)
