"""Aggregates that lack events of a group, since a move has added them while the group was open: they are NULL in its row.

A row of state names them in a column of its own, which is NULL in all others.
"""

from collections.abc import Mapping

import polars as pl
import pyarrow as pa

from keyfold.columns import column
from keyfold.operators.aggregation.parts import Naming

_NAMES = pl.List(pl.String)


class Incomplete:
    """The column of state that names incomplete aggregates.

    Args:
        naming: names the columns of state.

    Attributes:
        name: its name.
    """

    def __init__(self, naming: Naming) -> None:
        self.name = naming.common("incomplete")

    @property
    def field(self) -> pa.Field:
        """The column, as state has it."""
        return column(self.name, pa.list_(pa.string()), "Aggregates that lack events of the row, added by a move")

    @property
    def of_events(self) -> pl.Expr:
        """The column in rows of events, which lack nothing."""
        return pl.lit(None, _NAMES).alias(self.name)

    def column_in(self, rows: pl.DataFrame) -> list[str]:
        """Return the name of the column if some of the rows lack events; mostly, none does."""
        return [self.name] if self.name in rows.columns and rows[self.name].null_count() < rows.height else []

    def joined(self, rows: pl.DataFrame) -> pl.Expr | None:
        """Return the column of a group of rows: what any of them lacks. None of rows without the column."""
        if self.name not in rows.columns:
            return None
        if not self.column_in(rows):
            return self.of_events.first()
        names = pl.col(self.name).explode().drop_nulls().unique().sort()
        return pl.when(names.len() > 0).then(names.implode()).alias(self.name)

    def without_partial(self, groups: pl.DataFrame, results: Mapping[str, pl.Expr]) -> dict[str, pl.Expr]:
        """Return the aggregates of groups, or NULL where they lack events."""
        if not self.column_in(groups):
            return dict(results)
        lacking = {name: pl.col(self.name).list.contains(name).fill_null(value=False) for name in results}
        return {name: pl.when(~lacking[name]).then(result) for name, result in results.items()}
