"""Rank the groups of each window by an aggregate: the best-selling products of an hour (`windows(top=…)`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.keyed.job.step import DEADLINE
from keyfold.keyed.job.tables import Append, OutputTable
from keyfold.operators.aggregation.aggregates import Aggregate
from keyfold.operators.aggregation.chosen_rows import RANK
from keyfold.operators.aggregation.combined_rows import Aggregates
from keyfold.operators.aggregation.inference import OutputColumns
from keyfold.operators.aggregation.window_shapes import IS_OPEN, WINDOW_END, WINDOW_START
from keyfold.schemas import nearest
from keyfold.stream import TIMESTAMP
from keyfold.validation import declaration

GROUPS = "n_groups"
"""The column with the number of groups of a window."""


@declaration("top")
class Top:
    """The groups of a window with the highest aggregate, which are written in place of all (`windows(top=…)`).

    Groups are those of `by`, in each window of a key, or in each window if there is no key. Ties are ranked by the columns of `by`.

    Attributes:
        n: number of ranks.
        highest: the aggregate that ranks groups.
        whole: the table with one row per ended window, the aggregates of all its groups, and `n_groups`, their number; by default
            `<name>_windows`. One that is given must count the events (`Append(events=…)`).
        latest: a table to upsert with the ranks of windows with new events, open ones too (`is_open`).

    Raises:
        Misconfigured: `n` is less than 1.

    Example:
        >>> Top(n=10, highest="revenue").n
        10
    """

    n: Annotated[int, Field(ge=1)]
    highest: str
    whole: OutputTable | None = None
    latest: OutputTable | None = None

    def check(self, job: str, of: Mapping[str, Aggregate], by: Sequence[str]) -> None:
        """Check that groups of these aggregates can be ranked.

        Raises:
            Misconfigured: there are no groups, or `highest` is no aggregate that has an order.
        """
        if not by:
            raise Misconfigured(f"job {job}: top ranks the groups of a window; give their columns as `by`")
        if self.highest not in of or of[self.highest].kind in ("collect", "distinct"):
            raise Misconfigured(
                f"job {job}: highest is {self.highest!r}; it must be an aggregate that has an order"
                f"{nearest(self.highest, list(of))}"
            )

    def columns_of(self, of: Mapping[str, Aggregate], by: Sequence[str]) -> dict[str, Sequence[str]]:
        """Return the columns that ranking adds, with the columns of events that they depend on."""
        return {RANK: [*of[self.highest].value.meta.root_names(), *by], GROUPS: by}

    def tables(
        self, columns: OutputColumns, table: pa.Schema, groups: Sequence[pa.Field], counted: str
    ) -> tuple[OutputTable, OutputTable | None]:
        """Return `whole` and `latest` with the lineage of their columns.

        Args:
            columns: what the columns of the tables come from.
            table: the columns of the main table.
            groups: the columns of the key and of `by`.
            counted: the column with the number of events.

        Raises:
            Misconfigured: one has another column, or one of another type.
        """
        number = column(GROUPS, pa.int64(), "How many groups", nullable=False)
        times = [pa.field(name, TIMESTAMP) for name in (WINDOW_START, WINDOW_END)]
        whole = self.whole
        if whole is None:
            of_window = replace(columns, then={}).output(
                None, times=(WINDOW_START, WINDOW_END), counted=counted, more=[number]
            )
            declared = columns.aggregates_in(table)
            of_window = [declared.field(field.name) if field.name in declared.names else field for field in of_window]
            whole = Append(pa.schema(of_window), name=f"{columns.job}_windows", events=pl.col(counted).sum())
        keys = [field for field in groups if field.name in columns.key]
        whole = columns.table(whole, table, [*keys, *times, number], counted=counted)
        if self.latest is None:
            return whole, None
        own = [*times, *groups, rank_column(), pa.field(IS_OPEN, pa.bool_())]
        return whole, columns.table(self.latest, table, own, counted=counted)


def rank_column() -> pa.Field:
    """Declare the column with the place of a group."""
    return column(RANK, pa.int64(), "Place among the groups of the window, from 1", nullable=False)


@dataclass(frozen=True)
class TopGroups:
    """What a step writes of the groups of windows that do not overlap.

    Attributes:
        top: which groups are written.
        sums: the aggregates.
        key: the key columns.
        by: the columns of a group within a window of a key.
        pane: the column of panes with the start of their window.
        then: columns computed from the others.
        table: the columns of the main table.
        whole, latest: the other tables.
    """

    top: Top
    sums: Aggregates
    key: Sequence[str]
    by: Sequence[str]
    pane: str
    then: Mapping[str, pl.Expr]
    table: pa.Schema
    whole: OutputTable
    latest: OutputTable | None

    def rows(
        self, panes: pl.DataFrame, came: pl.DataFrame, watermark: datetime
    ) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
        """Return the rows of the main table, and those of the others.

        Args:
            panes: the groups of all windows that had not ended before; their deadline is the end of the window.
            came: the new events.
            watermark: by which windows have ended.
        """
        windows = panes.with_columns(pl.col(self.pane).alias(WINDOW_START), pl.col(DEADLINE).alias(WINDOW_END))
        is_over, window = pl.col(WINDOW_END) <= watermark, [*self.key, WINDOW_START, WINDOW_END]
        # Of open windows too: their totals are refused as soon as they do not fit.
        totals = self.sums.finished(self.sums.joined(windows, window, pl.len().cast(pl.Int64).alias(GROUPS)))
        side = {self.whole.name: self._shown(totals.filter(is_over).sort(window), self.whole.schema)}
        final = self._ranked(windows.filter(is_over), window)
        if self.latest is not None:
            changed = windows.filter(~is_over).join(came, on=[*self.key, self.pane], how="semi")
            both = ((final, False), (self._ranked(changed, window), True))
            parts = [part.with_columns(pl.lit(is_open).alias(IS_OPEN)) for part, is_open in both]
            side[self.latest.name] = pl.concat([self._shown(part, self.latest.schema) for part in parts])
        return self._shown(final, self.table), side

    def _ranked(self, groups: pl.DataFrame, window: Sequence[str]) -> pl.DataFrame:
        rows, n, highest = self.sums.finished(groups), self.top.n, self.top.highest
        # Sort only the groups that have as much as the n-th.
        candidates = rows.filter(pl.col(highest) >= pl.col(highest).top_k(n).min().over(window))
        order: dict[str, Any] = {"descending": [name == highest for name in (*window, highest, *self.by)]}
        ordered = candidates.sort(*window, highest, *self.by, **order)
        ranked = ordered.with_columns(pl.int_range(1, pl.len() + 1).over(window).alias(RANK))
        return ranked.filter(pl.col(RANK) <= n)

    def _shown(self, rows: pl.DataFrame, schema: pa.Schema) -> pl.DataFrame:
        used = {name: computed for name, computed in self.then.items() if name in schema.names}
        return rows.with_columns(**used).select(schema.names)
