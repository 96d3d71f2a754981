"""Read right events from a file, and say which stored rows they replace: those with their ids, or of their lines."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256

import polars as pl
from deltalake import Transaction

from keyfold.errors import InvalidData, NotFound, counted
from keyfold.keyed.rows.codec import polars_schema
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import scan_table
from keyfold.lakehouse.row_erasure import POSITION, change_rows, last_transaction
from keyfold.privacy import masked
from keyfold.runs.changing_events import check_has_events
from keyfold.runs.landed_events import LANDED, check_as_landed, named_lines, stored_events, taken_out
from keyfold.state.making.sources import fitted, open_source, reading
from keyfold.storage.place import Place
from keyfold.stream import Stream

SHOWN = 3
"""Number of rows that are shown."""


def right_events(lakehouse: Lakehouse, stream: Stream, source: str) -> pl.DataFrame:
    """Read events in the stream's columns, each of which has a valid value; of a stream without ids with `file` and `line`."""
    check_has_events(lakehouse, stream)
    kinds: dict[str, pl.DataType] = dict(polars_schema(stream.schema))
    if not stream.event_id:
        if both := [name for name in LANDED if name in kinds]:
            raise InvalidData(
                f"stream {stream.name} has no event_id, and a column {both[0]} of its own: no event can be named"
            )
        kinds |= {"file": pl.String(), "line": pl.Int64()}
    with reading(source):
        given = open_source(lakehouse, source).collect()
        if lacking := [name for name in kinds if name not in given.columns]:
            raise InvalidData(
                f"{source} lacks {', '.join(lacking)}; give all columns of stream {stream.name}, {', '.join(kinds)}; nothing was "
                "changed"
            )
        made = given.select(
            fitted(pl.col(name), given.schema[name], kind).cast(kind).alias(name) for name, kind in kinds.items()
        )
    key = list(stream.event_id or LANDED)
    never_empty = {field.name for field in stream.schema if not field.nullable} | set(key)
    faults = {f"{name} is no {kind}": made[name].is_null() & given[name].is_not_null() for name, kind in kinds.items()}
    faults |= {f"{name} is empty": made[name].is_null() for name in never_empty}
    faults |= {rule.reason: made.select(rule.broken.fill_null(value=False)).to_series() for rule in stream.rules}
    faults[f"the {'id' if stream.event_id else 'line'} is there twice"] = made.select(key).is_duplicated()
    for what, wrong in faults.items():
        if wrong.any():
            rows = ", ".join(str(row + 1) for row in wrong.arg_true().head(SHOWN))
            raise InvalidData(
                f"{source}: {what} in {counted(int(wrong.sum()), 'row')} (row {rows}); nothing was changed"
            )
    return made


@dataclass(frozen=True)
class Replacement:
    """Right events, and the stored rows that they replace.

    Attributes:
        stream: the stream.
        events: the right events, with the columns of the key.
        key: the columns that tell which row an event replaces: its id, or its position.
        named: the columns that name an event for people: its id, or `#file` and `#line`.
        rows: returns the rows of the event table, with the key.
        check: checks the rows that an event would replace.
        files: the files that have such rows; None if they have to be searched.
    """

    stream: Stream
    events: pl.DataFrame
    key: Sequence[str]
    named: Sequence[str]
    rows: Callable[[Place], pl.LazyFrame]
    check: Callable[[pl.DataFrame], None]
    files: Collection[str] | None = None
    transaction: Transaction | None = None

    def difference(self, table: Place) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Return the names of the events that differ from the table, and the first of them as they were, and as they are now."""
        there = self._compared(self.rows(table)).collect()
        self.check(there)
        changed = there.filter("differs").select(self.named)
        columns = self.stream.schema.names
        before = self.rows(table).join(there.filter("differs").lazy(), on=self.key, how="semi").head(SHOWN).collect()
        after = self.events.join(before, on=self.key, how="semi")
        return changed, before.sort(self.named).select(columns), after.sort(self.named).select(columns)

    def replace(self, table: Place) -> None:
        """Replace the rows in the table, in one commit."""
        events = self.events.select(*dict.fromkeys([*self.stream.schema.names, *self.key])).lazy()
        change_rows(
            table,
            (lambda rows: self._compared(rows).filter("differs")) if self.files is None else self.files,
            lambda rows: rows.update(events, on=self.key, how="left", include_nulls=True),
            self.transaction,
        )

    def _compared(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows that right events would replace, and whether a value differs."""
        values = [name for name in self.stream.schema.names if name not in self.key]
        differs = (pl.col(name).ne_missing(pl.col(f"{name}#new")) for name in values)
        both = rows.join(self.events.lazy(), on=self.key, how="inner", suffix="#new")
        return both.with_columns(differs=pl.any_horizontal(pl.lit(value=False), *differs)).select(
            *dict.fromkeys([*self.key, *self.named]), "differs"
        )


def replaced_by_id(stream: Stream, source: str, right: pl.DataFrame) -> Replacement:
    return Replacement(
        stream,
        right,
        stream.event_id,
        stream.event_id,
        scan_table,
        lambda there: _check_ids(stream, source, right, there),
    )


def replaced_by_line(lakehouse: Lakehouse, table: Place, stream: Stream, right: pl.DataFrame) -> Replacement:
    """Return the replacement of the events that came from the lines of right ones; of none if this was done before."""
    lines = named_lines(lakehouse, stream, [f"{file}:{line}" for file, line in right.select(LANDED).rows()])
    name = f"keyfold.corrected/{sha256(repr(sorted(right.rows(), key=repr)).encode()).hexdigest()}"
    is_done = last_transaction(table, name) >= 0
    if not is_done:
        check_as_landed(lakehouse, stream, lines)
        if gone := taken_out(lakehouse, stream).intersection(lines):
            file, line = next(iter(gone))
            raise NotFound(
                f"the event of line {line} of {file} was taken out of events.{stream.name}; nothing was changed"
            )
    stored = stored_events(lakehouse, table, stream, () if is_done else lines)
    if stored.height > len(lines):
        raise InvalidData(
            f"a line of stream {stream.name} has several events, of which none can be named alone; nothing was changed"
        )
    placed = right.with_columns(
        pl.Series("#file", [file for file, _ in lines]), pl.Series("#line", [line for _, line in lines])
    )
    events = placed.join(stored.select("#file", "#line", *POSITION), on=["#file", "#line"]).drop(LANDED)
    return Replacement(
        stream,
        events,
        POSITION,
        ("#file", "#line"),
        lambda _: stored.lazy(),
        lambda _: None,
        stored["#path"].unique().sort().to_list(),
        Transaction(name, 0),
    )


def _check_ids(stream: Stream, source: str, events: pl.DataFrame, there: pl.DataFrame) -> None:
    absent = events.join(there, on=stream.event_id, how="anti")
    twice = there.filter(there.select(stream.event_id).is_duplicated()).unique(stream.event_id, maintain_order=True)
    for what, rows in (("is not in", absent), ("is several times in", twice)):
        if rows.height:
            shown = masked(rows.select(stream.event_id).head(SHOWN), frozenset(stream.private)).to_dicts()
            raise InvalidData(
                f"{source}: the id of {counted(rows.height, 'event')} {what} events.{stream.name} (such as {shown[0]}); an event that is new "
                "has to land as any other; nothing was changed"
            )
