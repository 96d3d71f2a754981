"""Propose a stream from a sample of its rows: columns, event time, event id, private columns, and notes."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.cli.new.columns import RawColumn, propose_columns
from keyfold.cli.new.names import column_names, label_and_unit, words
from keyfold.cli.new.private import why_private
from keyfold.cli.new.sample import Sample
from keyfold.errors import KeyfoldError
from keyfold.stream import INGESTED_AT

ARRIVAL = "arrival"
"""Given instead of a column if events have no time of their own."""

_EVENT_TIMES = ("event_time", "timestamp", "time", "ts", "event_timestamp", "occurred_at", "datetime", "at")
_TIMES_OF_SOMETHING_ELSE = re.compile("updated|modified|ingested|received|loaded|processed|deleted|expires|birth|end")
_NAMES_THINGS = re.compile("ids?|key|code|uuid|guid|number|no|nr|seq|sequence|idx|index|offset|name|symbol|sku")
_KEPT = 1_000
"""Number of JSON texts whose field names are examined."""
_TRIED = 8
"""Number of columns from which event ids are formed; the number of combinations grows with its third power."""
_COUNTS_EVENTS = re.compile("idx|index|seq|sequence|number|no|nr|offset")


@dataclass(frozen=True)
class Column:
    """A column of the event table.

    Attributes:
        name: its name there.
        source: the raw column.
        nullable: whether an event may lack it.
        unit: the unit of its values, if its raw name has one.
    """

    name: str
    source: RawColumn
    nullable: bool
    unit: str = ""

    @property
    def kind(self) -> pa.DataType:
        """Its type."""
        if self.source.kind is None:
            raise KeyfoldError(f"column {self.name} has no type that ingest reads")
        return self.source.kind

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers, which may have a unit."""
        return is_number(self.kind)


@dataclass(frozen=True)
class Proposal:
    """A proposed stream.

    Attributes:
        columns: the columns of the event table.
        event_time: the column with the event's time; `INGESTED_AT` if that is its arrival.
        event_id: columns that together identify an event; empty if none do.
        private: columns to mask.
        missing: texts that mean a missing value.
        ignored: raw columns that are left out.
        notes: notes for the user to review, one line each.
    """

    columns: Sequence[Column]
    event_time: str
    event_id: Sequence[str]
    private: Sequence[str]
    missing: Sequence[str]
    ignored: Sequence[str]
    notes: Sequence[str]


def is_number(kind: pa.DataType | None) -> bool:
    """Return whether values of a type are numbers."""
    return kind is not None and (types.is_floating(kind) or types.is_integer(kind))


def propose_stream(
    name: str, sample: Sample, event_time: str | None = None, event_id: Sequence[str] | None = None
) -> Proposal:
    """Propose a stream for a sample.

    Args:
        name: the stream's name.
        sample: raw rows.
        event_time: the column with the event's time, by its raw or its new name, or `arrival`; detected if not given.
        event_id: the columns that together identify an event, by raw or new name; detected if not given.

    Raises:
        KeyfoldError: no column has times, or a given column does not exist or has no times.
    """
    found = propose_columns(sample)
    readable = {column.raw: column for column in found if column.kind is not None}
    labelled = {raw: label_and_unit(raw) if is_number(column.kind) else (raw, "") for raw, column in readable.items()}
    names = column_names({raw: label for raw, (label, _) in labelled.items()})
    columns = {names[raw]: column for raw, column in readable.items()}
    time, others = _event_time(columns, event_time)
    _require_key(found, columns, time)
    notes = [f"{column.raw}: {note}" for column in found for note in column.notes]
    notes += [
        f"{raw}: {count:,} of its values {'is' if count == 1 else 'are'} no object: such rows go to quarantine"
        for raw, count in sample.misfits.items()
    ]
    # Count only missing times: invalid ones already have a note.
    if time in columns and (lacking := columns[time].values.null_count() - columns[time].misfits):
        notes.append(
            f"{lacking:,} of {sample.rows:,} rows have no time and go to quarantine; with "
            'missing_time="arrival" in the stream, they are dated by their arrival'
        )
    if others:
        notes.append(f"event time is {time}; other candidates: {', '.join(others)}; choose with --event-time")
    ids = (
        [_named(columns, name) for name in event_id] if event_id is not None else _event_id(name, columns, time, notes)
    )
    private = _private(columns, notes)
    return Proposal(
        columns=[
            Column(name, column, not (name == time or name in ids or _is_id(name, column)), labelled[column.raw][1])
            for name, column in columns.items()
        ],
        event_time=time,
        event_id=ids,
        private=private,
        missing=sorted({mark for column in readable.values() for mark in column.marks}),
        ignored=[column.raw for column in found if column.kind is None],
        notes=notes,
    )


def _require_key(found: Sequence[RawColumn], columns: dict[str, RawColumn], time: str) -> None:
    """Check that some column can be a job's key, if columns were kept as JSON or left out.

    Raises:
        KeyfoldError: none of the remaining columns can.
    """
    lost = [column.raw for column in found if column.json or column.kind is None]
    if not lost or any(_is_key(column) for name, column in columns.items() if name != time):
        return
    listed = ", ".join(f"{name} ({describe_type(column)})" for name, column in columns.items())
    raise KeyfoldError(
        "no column can be the key of a job: a key column has texts, whole numbers, or true and false. The columns are: "
        f"{listed}. Write the stream by hand, with paths into {', '.join(lost)}, such as "
        f"Source('{lost[0]}.FIELD')"
    )


def _is_key(column: RawColumn) -> bool:
    is_kind = column.kind is not None and (
        types.is_string(column.kind) or types.is_integer(column.kind) or types.is_boolean(column.kind)
    )
    return is_kind and not column.json and column.values.null_count() < len(column.values)


def _named(columns: dict[str, RawColumn], name: str) -> str:
    for own, column in columns.items():
        if name in (own, column.raw):
            return own
    raise KeyfoldError(f"the sample has no column {name!r} that ingest reads; it has {', '.join(columns)}")


def _event_time(columns: dict[str, RawColumn], wanted: str | None) -> tuple[str, list[str]]:
    """Choose the column with the event's time; return it and the other candidates, best first."""
    times = [name for name, column in columns.items() if column.is_time]
    if wanted == ARRIVAL and wanted not in columns:
        return INGESTED_AT, []
    if wanted is not None:
        name = _named(columns, wanted)
        if name not in times:
            shown = next((str(value) for value in columns[name].values if value is not None), "no value")
            raise KeyfoldError(
                f"--event-time {wanted}: its values are not times (the first is {shown[:40]!r}); "
                + (f"columns of times: {', '.join(times)}" if times else "no other column has times either")
            )
        return name, []
    if not times:
        listed = ", ".join(f"{name} ({describe_type(column)})" for name, column in columns.items())
        raise KeyfoldError(
            f"no column of the sample has times, and every event needs an event time. The columns are: {listed}. Known forms "
            "are ISO 8601, usual orders of date and clock, and numbers that count from 1970 in a column named like a time. If "
            f"events have no time, --event-time {ARRIVAL} dates them by their arrival"
        )
    best = sorted(times, key=lambda name: _rank_as_event_time(name, columns[name]))
    return best[0], best[1:]


def _rank_as_event_time(name: str, column: RawColumn) -> tuple[bool, bool, int]:
    place = _EVENT_TIMES.index(name) if name in _EVENT_TIMES else len(_EVENT_TIMES)
    return not column.is_whole, _has_word(name, _TIMES_OF_SOMETHING_ELSE), place


def _event_id(stream: str, columns: dict[str, RawColumn], time: str, notes: list[str]) -> list[str]:
    """Find the fewest columns that are unique in the sample and plausible as an event id.

    They are one column named like an event id, or ids together with a time or a sequence number.
    """
    frame = pl.DataFrame({name: column.values for name, column in columns.items() if column.values.dtype != pl.Object})
    rows = frame.unique()
    if copies := frame.height - rows.height:
        notes.append(f"{copies:,} {'row is' if copies == 1 else 'rows are'} equal to another in every column")
    ids = [name for name, column in columns.items() if name != time and _is_id(name, column)]
    # Arrival is not a column of the sample, so it cannot be part of the id.
    possible = [*ids[:_TRIED], time] if time in columns else ids[:_TRIED]
    names_of_events = {"id", "uuid", "guid", "event_id", "message_id", f"{stream}_id", f"{stream.removesuffix('s')}_id"}
    for chosen in (one for count in (1, 2, 3) for one in combinations(possible, count)):
        # Many columns are unique in a small sample only, and a wrong event id drops events as duplicates. So a single
        # column must be named like an event id, and several columns need a time or a sequence number among them.
        is_meant = set(chosen) <= names_of_events if len(chosen) == 1 else _distinguishes_events(chosen, time)
        if is_meant and rows.select(chosen).is_unique().all():
            return [name for name in columns if name in chosen]
    notes.append("no columns identify an event, so duplicates are not detected: set `event_id` if some columns do")
    return []


def _distinguishes_events(chosen: Sequence[str], time: str) -> bool:
    return any(name == time or _has_word(name, _COUNTS_EVENTS) for name in chosen)


def _is_id(name: str, column: RawColumn) -> bool:
    """Return whether a column identifies something, so that events must have it; measurements may be missing."""
    is_text_or_whole = (
        column.kind is not None and not column.json and (types.is_string(column.kind) or types.is_integer(column.kind))
    )
    if not (is_text_or_whole and column.is_whole):
        return False
    # Empty texts identify nothing, and a required column rejects them.
    if types.is_string(column.kind) and (column.values.str.strip_chars() == "").any():
        return False
    repeats = types.is_string(column.kind) and column.values.n_unique() < len(column.values)
    return repeats or _has_word(name, _NAMES_THINGS)


def _private(columns: dict[str, RawColumn], notes: list[str]) -> list[str]:
    private = []
    for name, column in columns.items():
        if why := why_kept_private(column) if column.json else why_private(column.raw, column.values):
            private.append(name)
            notes.append(f"{name} is proposed as private, {why}: its values are masked wherever rows are shown")
    return private


def why_kept_private(column: RawColumn) -> str:
    """Say why JSON text should be private: by its own name or that of a field in it; empty if it need not be."""
    nothing = pl.Series([], dtype=pl.String)
    names = dict.fromkeys(
        name for text in column.values.drop_nulls().head(_KEPT) for name in _names_in(json.loads(text))
    )
    found = next((name for name in names if why_private(name, nothing)), None)
    return why_private(column.raw, nothing) or (f"since it holds {found!r}" if found is not None else "")


def _names_in(value: Any) -> Iterator[str]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    yield from value if isinstance(value, dict) else ()
    for one in inside:
        yield from _names_in(one)


def _has_word(name: str, pattern: re.Pattern[str]) -> bool:
    return any(pattern.fullmatch(word) for word in words(name))


def describe_type(column: RawColumn) -> str:
    """Describe the type of a column for people."""
    if column.json:
        return "JSON text"
    if column.is_time:
        return "time"
    names = {pa.string(): "text", pa.int64(): "whole numbers", pa.float64(): "numbers", pa.bool_(): "true or false"}
    return "nothing that ingest reads" if column.kind is None else names.get(column.kind, "texts")
