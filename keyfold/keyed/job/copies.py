"""An event that belongs to several keys: one copy of it for each, made where events are read."""

from dataclasses import dataclass
from typing import Any

import polars as pl


@dataclass(frozen=True)
class KeysOf:
    """A column of a job's key that an event may have several values of: it reaches the state of each, as a copy.

    Attributes:
        column: of `events`, and of the key; the event table does not have it.
        values: an expression over the event table's columns that gives a list. NULLs in it are none, and a value that
            is in it twice counts once.
        otherwise: the key of an event whose list is empty or NULL, so that none is lost. None refuses such an event:
            the run fails and names the file.

    Example:
        >>> by_model = KeysOf("model", pl.col("models"), otherwise="")
        >>> sales = pl.DataFrame({"quantity": [2, 1], "models": [["a", "b", "a"], []]})
        >>> by_model.copies_of(sales).select("quantity", "model").rows()
        [(2, 'a'), (2, 'b'), (1, '')]
        >>> sales.select(by_model.count).item()
        3
    """

    column: str
    values: pl.Expr
    otherwise: Any = None

    def copies_of(self, events: pl.DataFrame) -> pl.DataFrame:
        """The events, a row for each of its keys, with the key's value in `column`; NULL where there is none."""
        several = pl.col(self.column)
        lists = events.with_columns(self.values.alias(self.column))
        # Most lists have one value, which is different from all others of it.
        if lists[self.column].list.len().max() not in (None, 0, 1):
            lists = lists.with_columns(several.list.drop_nulls().list.unique(maintain_order=True))
        copies = lists.explode(self.column, empty_as_null=True, keep_nulls=True)
        return copies if self.otherwise is None else copies.with_columns(several.fill_null(self.otherwise))

    def __str__(self) -> str:
        return f"{self.column} of {self.values}, otherwise {self.otherwise!r}"

    @property
    def count(self) -> pl.Expr:
        """How many copies rows of the event table have: told by its lists alone, without making any."""
        there = self.values.list.drop_nulls().list.n_unique()
        least = 0 if self.otherwise is None else 1
        return there.fill_null(0).clip(lower_bound=least).cast(pl.Int64).sum()
