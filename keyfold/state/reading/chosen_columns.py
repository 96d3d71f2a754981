"""Choose and rename columns of state for those who read it outside of Keyfold."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.schemas import field_of
from keyfold.state.reading.state_rows import RowSource


def chosen_columns(rows: RowSource, text: str) -> "ChosenColumns":
    """Return rows with the key, and some other columns.

    Args:
        rows: rows of a state.
        text: the other columns in their order, separated by commas, each as `COLUMN` or `NAME=COLUMN`.

    Raises:
        Misconfigured: there is no such column, or two would have one name.
    """
    pairs = [one.strip().rpartition("=") for one in text.split(",")]
    chosen = [(name.strip() or column.strip(), column.strip()) for name, _, column in pairs]
    for _, column in chosen:
        if not column:
            raise Misconfigured(f"--columns {text!r} lacks a name: write it as COLUMN,NAME=COLUMN")
        field_of(f"--columns {text}: {rows.where}", column, rows.schema)
    of_key = [(name, name) for name in rows.key]
    named = [*of_key, *(pair for pair in chosen if pair not in of_key)]
    names = [name for name, _ in named]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Misconfigured(f"--columns {text}: {', '.join(twice)} is there twice; the key is always in a row")
    return ChosenColumns(rows, dict(named))


@dataclass(frozen=True)
class ChosenColumns:
    """Rows of another source with some of their columns.

    Attributes:
        rows: the other source.
        columns: by name, the column of the other source; those of the key are among them.
    """

    rows: RowSource
    columns: Mapping[str, str]

    @property
    def where(self) -> str:
        """Describes the rows, for messages."""
        return self.rows.where

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self.rows.key

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return pa.schema([self.rows.schema.field(column).with_name(name) for name, column in self.columns.items()])

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield the rows; a frame has all rows of its keys."""
        for frame in self.rows.frames():
            yield frame.select(pl.col(column).alias(name) for name, column in self.columns.items())
