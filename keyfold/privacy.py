"""Mask the values of private columns wherever rows are shown.

A stream names its private columns (`Stream.private`). Its tables hold their values; previews, samples, result pages, errors,
logs and alerts show `MASK` instead.

**The rule for a job's tables:** a column is private if it is declared to depend on a private column (`columns.lineage_of`). A
column without a declaration is taken for the stream's column of the same name. If there is none, it is private as soon as
the stream has any private column: a forgotten declaration hides values, and does not show them.

The message of an exception may quote any value. So a worker that handles private values reports only the type of an exception
and the line of code that raised it. The message of a `ShowableError` quotes none.
"""

import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from keyfold.columns import lineage_of
from keyfold.errors import KeyfoldError


class HasPrivate(Protocol):
    """A source of rows that may have private columns: a stream, or a table of a job."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def private(self) -> Any: ...  # tuple[str, ...]; pyright compares a field with a converter by its descriptor


MASK = "(private)"
"""Shown in place of every private value. A hash would not do: it can be reversed by hashing likely values."""

_FRAMES = 3


def private_columns(streams: Collection[HasPrivate], schema: pa.Schema) -> frozenset[str]:
    """Return the private columns of a table, by the rule above.

    Args:
        streams: the streams that the table is made of.

    Example:
        >>> from keyfold.columns import column
        >>> from spark_jobs.streams import SALES
        >>> total = column("total", pa.int64(), "Pieces sold", lineage=("quantity",))
        >>> best = column("best_customer", pa.string(), "Who bought most", lineage=("customer", "quantity"))
        >>> sorted(private_columns([SALES], pa.schema([total, best, pa.field("undeclared", pa.string())])))
        ['best_customer', 'undeclared']
    """
    private = {name for stream in streams for name in stream.private}
    if not private:
        return frozenset()
    columns = {name for stream in streams for name in stream.schema.names}
    return frozenset(field.name for field in schema if _is_private(columns, private, field))


def masked(frame: pl.DataFrame, private: Collection[str]) -> pl.DataFrame:
    """Replace the values of private columns by the mask, NULLs too.

    Example:
        >>> masked(pl.DataFrame({"item": ["tea"], "customer": [None]}), {"customer"}).to_dicts()
        [{'item': 'tea', 'customer': '(private)'}]
    """
    return frame.with_columns(pl.lit(MASK).alias(name) for name in frame.columns if name in private)


def masked_changes(rows: pl.DataFrame, private: Collection[str]) -> pl.DataFrame:
    """Replace the values of private columns by the mask in rows that differ: in their keys, and in the rows `before` and `after`.

    Example:
        >>> rows = pl.DataFrame({"user": ["ann"], "before": [[{"n": 1}]], "after": [[{"n": 2}]]})
        >>> masked_changes(rows, {"user", "n"}).row(0)
        ('(private)', [{'n': '(private)'}], [{'n': '(private)'}])
    """
    if not private:
        return rows
    lists = {name: [_masked_row(of_key, private) for of_key in rows[name].to_list()] for name in ("before", "after")}
    return masked(rows, private).with_columns(pl.Series(name, values, strict=False) for name, values in lists.items())


def _masked_row(rows: list[dict[str, Any]] | None, private: Collection[str]) -> list[dict[str, Any]] | None:
    if rows is None:
        return None
    return [{name: MASK if name in private else value for name, value in row.items()} for row in rows]


class ShowableError(Exception):
    """An error that can be shown although values are private: its message quotes none."""


def describe_error(error: BaseException, private: Collection[str]) -> str:
    """Describe an error in one line, without private values: by type and message, or by type and the code that raised it."""
    name = type(error).__name__
    if not private or isinstance(error, ShowableError):
        return f"{name}: {error}"
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    calls = " < ".join(
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno} in {frame.name}" for frame in reversed(frames)
    )
    return f"{name} at {calls} (its message is hidden: it may quote values of {', '.join(sorted(private))})"


@contextmanager
def errors_without_values(task: str, private: Collection[str]) -> Iterator[None]:
    """Replace errors that may quote a private value; if nothing is private, errors pass unchanged.

    Args:
        task: names the operation in the message.
        private: private columns of the rows that are handled.

    Raises:
        KeyfoldError: in place of an error that may quote a private value; has its type and the code that raised it.
    """
    try:
        yield
    except Exception as error:
        # These quote no values, and callers handle them by their type.
        if not private or isinstance(error, OSError | KeyfoldError):
            raise
        # From None: a traceback shows the message of the cause too.
        raise KeyfoldError(f"{task}: {describe_error(error, private)}") from None


def _is_private(columns: Collection[str], private: Collection[str], field: pa.Field) -> bool:
    sources = lineage_of(field) or ((field.name,) if field.name in columns else ())
    return not sources or any(source in private for source in sources)
