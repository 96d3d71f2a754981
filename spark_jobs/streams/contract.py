"""What a stream declares: what an event looks like, where its columns come from, what makes it valid, and the same event twice."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa

from spark_jobs.errors import KeyfoldError

TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Rule:
    """A validity rule: rows where `broken` is true go to quarantine with `reason`."""

    reason: str
    broken: pl.Expr


@dataclass(frozen=True)
class Source:
    """Where an event column's value comes from in raw data; the first of these that has one gives it, row by row.

    Attributes:
        names: raw columns, in order.
        path: the file's path below its landing folder, without its endings (`.csv.gz`).
        constant: the same value for every row.
    """

    names: tuple[str, ...] = ()
    path: bool = False
    constant: Any = None


@dataclass(frozen=True)
class Stream:
    """One kind of event.

    Raw values are cast to the schema's types without guesses (`parsing.casting`); a column of lists also takes a single
    value, as a list of one.

    Attributes:
        name: names the landing folder and the tables `events.<name>` and `quarantine.<name>`.
        schema: columns of the event table (`spark_jobs.columns`); a column that is not nullable must be there.
        event_time: the column with the event's time (UTC).
        description: what people read of the event table.
        sources: where a column comes from, by its name; a column that is left out is the raw column of its own name.
        ignored: raw columns that are left out on purpose, so that they are no drift.
        missing: texts that stand for no value, in any column.
        event_id: columns that together identify an event; empty keeps every row.
        rules: further rules on the typed columns.
        duplicate_window: how far apart, in event time, two copies of an event may lie to be recognised as such.
        future_bound: how far past its file's admission an event's time may lie.
        done_marker: whether its files are whole only once `NAME.done` or `_SUCCESS` stands beside them
            (`ingest.sources.files`).
        private: columns that say who a person is, or what is nobody else's business; shown to nobody where rows are
            shown (previews, samples, pages, logs), though the tables hold them.
        max_line_bytes: the longest line of a text file; a file with a longer one goes to quarantine as a whole.
        max_file_bytes: the longest file, decompressed; a longer one goes to quarantine as a whole.

    Raises:
        KeyfoldError: something is said of a column that the schema does not have.
    """

    name: str
    schema: pa.Schema
    event_time: str
    description: str = ""
    sources: Mapping[str, Source] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    event_id: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    duplicate_window: timedelta = timedelta(days=7)
    future_bound: timedelta = timedelta(days=1)
    done_marker: bool = False
    private: tuple[str, ...] = ()
    max_line_bytes: int = 16 << 20
    max_file_bytes: int = 8 << 30

    def __post_init__(self) -> None:
        named = {
            "event_time": (self.event_time,),
            "event_id": self.event_id,
            "sources": tuple(self.sources),
            "private": self.private,
        }
        for what, columns in named.items():
            if strangers := [column for column in columns if column not in self.schema.names]:
                raise KeyfoldError(
                    f"stream {self.name}: {what} names {', '.join(strangers)}, which its schema does not have; it has "
                    f"{', '.join(self.schema.names)}"
                )

    def source(self, column: str) -> Source:
        """Where a column comes from."""
        return self.sources.get(column) or Source(names=(column,))

    @property
    def raw_schema(self) -> pa.Schema:
        """The raw columns that a file may have, each with the type of the event column that it becomes."""
        return pa.schema(
            [pa.field(name, column.type) for column in self.schema for name in self.source(column.name).names]
        )
