"""What is private of a stream, wherever its rows or what is made of them would be shown.

A stream names its private columns once (`Stream.private`). The tables hold them; nothing else shows them: previews,
samples, result pages, errors, logs and alerts have `MASK` instead.

**The rule for tables that a job writes:** a column is private if it is made of a private one, as its declaration says
(`columns.made_of`); a column that says nothing is the stream's own of its name; and one that says nothing and has no such
name is private, as soon as its stream has anything private. So what is forgotten is hidden.

What an exception says can quote any value. So where a worker has private values before it, an error tells its type and
the line of code that raised it, and nothing of what it said; but a `MaskableError` says what it may.
"""

import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

import polars as pl
import pyarrow as pa

from keyfold.columns import made_of
from keyfold.errors import KeyfoldError


class HasPrivate(Protocol):
    """What rows come from and may be private of: a stream, or the table of a job."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def private(self) -> tuple[str, ...]: ...


MASK = "(private)"
"""It tells nothing of the value, not even whether two are the same: a hash of a name is found again by hashing names."""

_FRAMES = 3


def private_columns(streams: Collection[HasPrivate], schema: pa.Schema) -> frozenset[str]:
    """The columns of a table that show what is private of any of the streams that it is made of.

    Args:
        streams: the streams.
        schema: of the table, as declared.

    Example:
        >>> from keyfold.columns import column
        >>> from spark_jobs.streams import SALES
        >>> total = column("total", pa.int64(), "Pieces sold", made_of=("quantity",))
        >>> best = column("best_customer", pa.string(), "Who bought most", made_of=("customer", "quantity"))
        >>> sorted(private_columns([SALES], pa.schema([total, best, pa.field("undeclared", pa.string())])))
        ['best_customer', 'undeclared']
    """
    private = {name for stream in streams for name in stream.private}
    if not private:
        return frozenset()
    known = {name for stream in streams for name in stream.schema.names}
    return frozenset(field.name for field in schema if _is_private(known, private, field))


def masked(frame: pl.DataFrame, private: Collection[str]) -> pl.DataFrame:
    """A frame to show: private columns have the mask in every row, in those without a value too.

    Example:
        >>> masked(pl.DataFrame({"item": ["tea"], "customer": [None]}), {"customer"}).to_dicts()
        [{'item': 'tea', 'customer': '(private)'}]
    """
    return frame.with_columns(pl.lit(MASK).alias(name) for name in frame.columns if name in private)


class MaskableError(Exception):
    """An error that can be shown where values are private: its message quotes none, or `masked` leaves them out."""

    def masked(self, private: Collection[str]) -> str:
        """The message without values of those columns."""
        return str(self)


def describe_error(error: BaseException, private: Collection[str]) -> str:
    """An error in a line: its type and what it says, or, where that may quote private values, where it was raised.

    A `MaskableError` says what it may.
    """
    name = type(error).__name__
    if not private:
        return f"{name}: {error}"
    if isinstance(error, MaskableError):
        return f"{name}: {error.masked(private)}"
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    where = " < ".join(
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno} in {frame.name}" for frame in reversed(frames)
    )
    return f"{name} at {where} (what it says is hidden: it may show values of {', '.join(sorted(private))})"


@contextmanager
def errors_without_values(what: str, private: Collection[str]) -> Iterator[None]:
    """Let no error out that may quote a private value; where nothing is private, errors pass as they are.

    Args:
        what: is done, for people.
        private: columns whose values are before whoever raises.

    Raises:
        KeyfoldError: instead of an error that may quote one; it tells type and place.
    """
    try:
        yield
    except Exception as error:
        # Disks have no values, and whoever is above knows what to do with theirs.
        if not private or isinstance(error, OSError | KeyfoldError):
            raise
        # From None: a traceback tells the causes of an error too.
        raise KeyfoldError(f"{what}: {describe_error(error, private)}") from None


def _is_private(known: Collection[str], private: Collection[str], field: pa.Field) -> bool:
    sources = made_of(field) or ((field.name,) if field.name in known else ())
    return not sources or any(source in private for source in sources)
