"""Choose the rows of an event table that a call changes: by values of columns, by ids, or by the lines that they came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Protocol

import polars as pl

from keyfold.errors import InvalidData
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.file_changes import POSITION, rows_with_positions
from keyfold.runs.landed_events import Line, check_as_landed, stored_events, taken_out
from keyfold.state.rows.keys import wanted_keys
from keyfold.stream import Stream

_FEW = 100
"""Ids that are searched one by one, so that the statistics of files say which have none of them."""


class Chosen(Protocol):
    """Which events a call changes."""

    def rows(self, lakehouse: Lakehouse, stream: Stream) -> pl.DataFrame:
        """Return the rows of a stream's event table, with `POSITION`; the columns that name an event are `names_of`."""
        ...


@dataclass(frozen=True)
class WithValues:
    """The events with one of the values in each column. Of their rows, only the positions are read."""

    texts: Mapping[str, Sequence[str]]

    def condition(self, stream: Stream) -> pl.Expr:
        """Return the condition that rows fulfil.

        Raises:
            InvalidData: no column is named, the stream has not all of them, or a value does not fit its column.
        """
        values = typed_values(stream, self.texts)
        return pl.all_horizontal(pl.col(name).is_in(wanted.implode()) for name, wanted in values.items())

    def rows(self, lakehouse: Lakehouse, stream: Stream) -> pl.DataFrame:
        table, condition = lakehouse.events(stream.name), self.condition(stream)
        if not is_table(table):
            return pl.DataFrame(schema=dict.fromkeys(POSITION, pl.String))
        return rows_with_positions(table, condition, ())


@dataclass(frozen=True)
class WithIds:
    """The events with some ids.

    Attributes:
        ids: a row for each, with the columns of the stream's id.
    """

    ids: pl.DataFrame

    def rows(self, lakehouse: Lakehouse, stream: Stream) -> pl.DataFrame:
        table, columns = lakehouse.events(stream.name), stream.event_schema.names
        if self.ids.height > _FEW:
            wanted = (pl.col(name).is_in(self.ids[name].implode(), nulls_equal=True) for name in stream.event_id)
            rows = rows_with_positions(table, pl.all_horizontal(wanted), columns)
            return rows.join(self.ids, on=stream.event_id, how="semi", nulls_equal=True, maintain_order="left")
        same = (
            reduce(and_, (pl.col(name).eq_missing(pl.lit(value, self.ids.schema[name])) for name, value in row.items()))
            for row in self.ids.select(stream.event_id).iter_rows(named=True)
        )
        return rows_with_positions(table, reduce(or_, same, pl.lit(value=False)), columns)


@dataclass(frozen=True)
class OfLines:
    """The events that came from some lines, but for those that were taken out; of equal ones, one for each line."""

    lines: Sequence[Line]

    def rows(self, lakehouse: Lakehouse, stream: Stream) -> pl.DataFrame:
        check_as_landed(lakehouse, stream, self.lines)
        moved = taken_out(lakehouse, stream)
        return stored_events(lakehouse, stream, [line for line in self.lines if line not in moved])


def names_of(stream: Stream, rows: pl.DataFrame) -> pl.DataFrame:
    """Return what names each of the rows that were chosen: its id, or `file` and `line`; nothing of those chosen by values."""
    if "#file" in rows.columns:
        return rows.select(file="#file", line="#line")
    return rows.select(name for name in stream.event_id if name in rows.columns)


def ids_of(stream: Stream, texts: Sequence[str]) -> pl.DataFrame:
    """Parse the ids of events.

    Raises:
        InvalidData: one does not fit its columns, or lacks one.
    """
    wanted = wanted_keys(texts, stream.event_id, stream.schema)
    frames = wanted.frames if wanted else ()
    if lacking := [name for name in stream.event_id if any(name not in frame.columns for frame in frames)]:
        raise InvalidData(
            f"an id of {stream.name} has the columns {', '.join(stream.event_id)}: give {', '.join(lacking)}"
        )
    return pl.concat([frame.select(stream.event_id) for frame in frames])


def typed_values(stream: Stream, texts: Mapping[str, Sequence[str]]) -> dict[str, pl.Series]:
    """Parse values as the types of their columns.

    Raises:
        InvalidData: no column is named, the stream has not all of them, or a value does not fit its column.
    """
    if not texts or not set(texts).issubset(stream.schema.names):
        raise InvalidData(
            f"say what is to be erased by columns of {stream.name}, which are {', '.join(stream.schema.names)}, and not by "
            f"{', '.join(texts) or 'nothing'}"
        )
    wanted = {name: wanted_keys(values, (name,), stream.schema) for name, values in texts.items()}
    return {name: keys.frames[0][name] for name, keys in wanted.items() if keys is not None}
