"""Combine the events of several inputs into one frame, and copy events that belong to several keys.

A job with several inputs has one key, one clock and one state. Its events become rows of one frame, with `input`, the key,
`event_time`, and all other columns of all inputs, which are NULL in rows of the other inputs. So late routing, partitioning,
counting and the late table work as for a job with one input. Before the step is called, the rows are separated by input.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.columns import required
from keyfold.errors import Misconfigured
from keyfold.keyed.job.inputs import EVENT_TIME, INPUT, Input
from keyfold.stream import TIMESTAMP


def joined_schema(key: tuple[str, ...], inputs: Mapping[str, Input]) -> pa.Schema:
    """Return the columns of the frame with events of all inputs: `input`, the key, `event_time`, then all others.

    Raises:
        Misconfigured: an input has a column of a reserved name.
    """
    for name, one in inputs.items():
        for taken in {INPUT, EVENT_TIME}.intersection(one.events.names) - ({EVENT_TIME} & {one.event_time}):
            raise Misconfigured(
                f"input {name}: column {taken} has a name that Keyfold needs itself; give it another name with `derived`"
            )
    first = next(iter(inputs.values()))
    further: dict[str, pa.Field] = {}
    for one in inputs.values():
        for field_ in one.events:
            if field_.name not in key and field_.name != one.event_time:
                # NULL in the rows of inputs that lack the column.
                further.setdefault(field_.name, field_.with_nullable(True))
    return pa.schema(
        [
            required(INPUT, pa.string(), "Which input the event is of"),
            *(first.events.field(name) for name in key),
            required(
                EVENT_TIME,
                TIMESTAMP,
                "Event time (UTC), by the input's own column",
                lineage=tuple(dict.fromkeys(one.event_time for one in inputs.values())),
            ),
            *further.values(),
        ]
    )


def tagged(name: str, one: Input, events: pl.DataFrame, wanted: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Convert events of an input to the columns of all inputs.

    Args:
        name: name of the input.
        one: the input.
        events: its events, in its own columns.
        wanted: the columns of all inputs (`joined_schema`), with their types.
    """
    # The event time keeps its own name too, in case it is in the key.
    own = {field_: pl.col(field_) for field_ in one.events.names}
    own |= {INPUT: pl.lit(name), EVENT_TIME: pl.col(one.event_time)}
    return events.select(own.get(field_, pl.lit(None)).cast(kind).alias(field_) for field_, kind in wanted.items())


def parted_by_input(inputs: Mapping[str, Input], events: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Separate events by input, each in its own columns; an input without events has an empty frame."""
    by_input: dict[str, pl.DataFrame] = {}
    for name, one in inputs.items():
        own = [pl.col(EVENT_TIME).alias(field_) if field_ == one.event_time else field_ for field_ in one.events.names]
        by_input[name] = events.filter(pl.col(INPUT) == name).select(own)
    return by_input


def counts_by_input(inputs: Mapping[str, Input], events: pl.DataFrame) -> tuple[int, ...]:
    """Count the events of each input, in the order of their declaration."""
    counts = dict(events[INPUT].value_counts().iter_rows()) if events.height else {}
    return tuple(counts.get(name, 0) for name in inputs)


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
