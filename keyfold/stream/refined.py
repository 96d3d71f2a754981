"""Refine a stream or a table of a job as a frame is refined, before a job reads it: `where`, `derive` and `explode`."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, TypeGuard, cast

import polars as pl
import polars_hash  # noqa: F401 - gives expressions their `nchash`
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.schemas import check_by_row, require, to_names
from keyfold.validation import argument, declaration


@declaration("a part")
class PartOf:
    """A derived column that assigns each event to one of `parts` parts, by a hash of columns of any type, with NULLs.

    Attributes:
        columns: the columns by which an event is assigned.
        parts: how many parts there are.

    Example:
        >>> events = pl.DataFrame({"user": ["ann", "bob", "ann"]})
        >>> parts = events.select(part=PartOf(("user",), 8).expression())["part"]
        >>> parts[0] == parts[2], parts.is_between(0, 7).all()
        (True, True)
    """

    columns: tuple[str, ...] = argument(converter=to_names)
    parts: int

    def expression(self) -> pl.Expr:
        """Return the part, 0 to `parts` - 1."""
        return (xxhash64(pl.struct(self.columns).struct.json_encode()) % self.parts).cast(pl.Int64)


Derived = pl.Expr | PartOf
"""How a column is derived."""


@declaration("explode {column}")
class Explosion:
    """A column of a job's key of which an event may have several values (`Refinable.explode`)."""

    column: str
    values: pl.Expr
    otherwise: Any = None

    def copies_of(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return a row for each event and value, with the value in `column`; NULL for an event without values."""
        column = pl.col(self.column)
        lists = events.with_columns(self.values.alias(self.column))
        # Lists of one value, which are usual, need no removal of duplicates.
        if lists[self.column].list.len().max() not in (None, 0, 1):
            lists = lists.with_columns(column.list.drop_nulls().list.unique(maintain_order=True))
        copies = lists.explode(self.column, empty_as_null=True, keep_nulls=True)
        return copies if self.otherwise is None else copies.with_columns(column.fill_null(self.otherwise))

    def __str__(self) -> str:
        return f"{self.column} of {self.values}, otherwise {self.otherwise!r}"

    @property
    def number(self) -> pl.Expr:
        """Expression for the number of copies of each row of the event table, which does not make them."""
        number = self.values.list.drop_nulls().list.n_unique()
        return number.fill_null(0).clip(lower_bound=0 if self.otherwise is None else 1).cast(pl.Int64)


class Refinable:
    """A stream, or a table of a job, which can be refined. All expressions are over the columns that its table stores."""

    name: str
    event_time: str

    @property
    def event_schema(self) -> pa.Schema:
        """The columns that its table stores."""
        raise NotImplementedError

    def where(self, condition: pl.Expr) -> "Refined":
        """Keep the rows for which a condition on the stored columns is true; repeated conditions must all be true.

        Rows for which it is false or NULL are left out when they are read. They advance event time, as all rows of the table do.

        Raises:
            Misconfigured: it is no expression of one row, or names a column that was derived or exploded before.

        Example:
            >>> from keyfold import Stream
            >>> clicks = Stream("clicks", {"user": pl.String, "at": pl.Datetime("us", "UTC"), "items": pl.List(pl.String)}, "at")
            >>> by_item = clicks.where(pl.col("user") != "robot").derive(hour=pl.col("at").dt.truncate("1h")).explode("items")
            >>> [*by_item.derived, by_item.exploded.column]
            ['hour', 'items']
        """
        refined = as_refined(self)
        refined.check("where", condition, "pl.col('amount') > 3")
        return replace(refined, condition=condition if refined.condition is None else refined.condition & condition)

    def derive(self, /, **columns: Derived) -> "Refined":
        """Add columns computed from the stored ones, which may be part of a job's key. They can also rename: `id=pl.col("no")`.

        Raises:
            Misconfigured: a value is no expression of one row, names a column that was derived or exploded before, or makes such a column.
        """
        refined = as_refined(self)
        for name, value in columns.items():
            refined.check(f"derive: {name}", value, "pl.col('amount') * 2", Derived)
            if name in refined.new_columns:
                raise Misconfigured(f"{refined}: derive: {name} is made already; give one of them another name")
        return replace(refined, derived={**refined.derived, **columns})

    def explode(self, column: str, values: pl.Expr | None = None, otherwise: Any = None) -> "Refined":
        """Copy each event once per value of a list. Each copy reaches one step, is counted, and is late or not by itself.

        Args:
            column: the column with the value, which is in the job's key.
            values: a list, as an expression over stored columns; by default the stored column of this name, which the value
                replaces. NULLs in it are ignored, and a repeated value counts once.
            otherwise: value for an event whose list is empty or NULL, so that the event is not lost. None refuses such events:
                the run fails, and names the file.

        Raises:
            Misconfigured: it is exploded already; or the values are no expression, or of a column that was derived before.
        """
        refined = as_refined(self)
        values = pl.col(column) if values is None else values
        refined.check("explode", values, "pl.col('items')")
        if refined.exploded is not None or column in refined.derived:
            raise Misconfigured(
                f"{refined}: explode: {column}: {', '.join(refined.new_columns)} is made already; leave one of them out"
            )
        return replace(refined, exploded=Explosion(column, values, otherwise))


@declaration("an input")
class Refined(Refinable):
    """What a job reads of a stream, or of a table of a job; the condition comes first, and the copies last.

    Attributes:
        source: the stream, or the table of a job.
        condition: which of its rows are taken.
        derived: columns that are computed, by name.
        exploded: the column of which an event may have several values.
    """

    source: Refinable
    condition: pl.Expr | None = None
    derived: Mapping[str, Derived] = field(default_factory=dict)
    exploded: Explosion | None = None

    @property
    def new_columns(self) -> tuple[str, ...]:
        """The columns that are not stored as the job reads them."""
        return (*self.derived, *([self.exploded.column] if self.exploded is not None else []))

    def check(self, argument: str, value: Derived, example: str, kinds: Any = pl.Expr) -> None:
        """Check that an expression is one over stored columns.

        Raises:
            Misconfigured: it is none, or names a column that is made.
        """
        require(f"{self}: {argument}", value, kinds, f"an expression, such as {example}")
        if isinstance(value, pl.Expr):
            check_by_row(f"{self}: {argument}", value)
        if new := [name for name in roots_of(value) if name in self.new_columns]:
            raise Misconfigured(
                f"{self}: {argument} names {new[0]}, which is made of stored columns; give its expression, since all are over these"
            )

    def __str__(self) -> str:
        return f"input {self.source.name}"


def as_refined(source: Any) -> Refined:
    """Return a stream, or a table of a job, as one that is refined by nothing, or as it is refined."""
    return source if isinstance(source, Refined) else Refined(source)


def roots_of(derived: Derived) -> list[str]:
    """Return the columns of the event table that a derived column is computed from."""
    return list(derived.columns) if isinstance(derived, PartOf) else derived.meta.root_names()


def is_column(derived: Derived | None) -> TypeGuard[pl.Expr]:
    """Return whether a derived column is another name of a stored one."""
    return isinstance(derived, pl.Expr) and derived.meta.is_column()


def expression_of(derived: Derived) -> pl.Expr:
    """Return the expression of a derived column. Call it where it is evaluated: `PartOf` refers to a file of the machine."""
    return derived.expression() if isinstance(derived, PartOf) else derived


def xxhash64(text: pl.Expr) -> pl.Expr:
    """Return the 64-bit hash of a text."""
    # Not Polars' own hash, which differs between versions: the hash decides where state is stored.
    return cast(Any, text).nchash.xxhash64()
