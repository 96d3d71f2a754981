"""Copy events that belong to several keys, once for each key."""

from dataclasses import dataclass
from typing import Any

import polars as pl


@dataclass(frozen=True)
class KeysOf:
    """A column of a job's key of which an event may have several values. The event is copied for each of them.

    Attributes:
        column: a column of `events` and of the key, which is not in the event table.
        values: an expression over the event table's columns that returns a list. NULLs in it are ignored, and a repeated
            value counts once.
        otherwise: value for an event whose list is empty or NULL, so that the event is not lost. None refuses such events:
            the run fails, and names the file.

    Example:
        >>> by_model = KeysOf("model", pl.col("models"), otherwise="")
        >>> sales = pl.DataFrame({"quantity": [2, 1], "models": [["a", "b", "a"], []]})
        >>> by_model.copies_of(sales).select("quantity", "model").rows()
        [(2, 'a'), (2, 'b'), (1, '')]
        >>> sales.select(by_model.number)["models"].to_list()
        [2, 1]
    """

    column: str
    values: pl.Expr
    otherwise: Any = None

    def copies_of(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return a row for each event and value, with the value in `column`; NULL for an event without values."""
        several = pl.col(self.column)
        lists = events.with_columns(self.values.alias(self.column))
        # Lists of one value, which are usual, need no removal of duplicates.
        if lists[self.column].list.len().max() not in (None, 0, 1):
            lists = lists.with_columns(several.list.drop_nulls().list.unique(maintain_order=True))
        copies = lists.explode(self.column, empty_as_null=True, keep_nulls=True)
        return copies if self.otherwise is None else copies.with_columns(several.fill_null(self.otherwise))

    def __str__(self) -> str:
        return f"{self.column} of {self.values}, otherwise {self.otherwise!r}"

    @property
    def number(self) -> pl.Expr:
        """Expression for the number of copies of each row of the event table, which does not make them."""
        there = self.values.list.drop_nulls().list.n_unique()
        least = 0 if self.otherwise is None else 1
        return there.fill_null(0).clip(lower_bound=least).cast(pl.Int64)
