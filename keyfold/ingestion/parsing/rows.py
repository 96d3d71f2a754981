"""`Rows`, the output of all parsers, and their validation into accepted and rejected rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from keyfold.ingestion.parsing.casting import Reading, cast_columns
from keyfold.ingestion.parsing.mapping import map_columns
from keyfold.stream import INGESTED_AT, Stream
from keyfold.times import ISO_FORMAT, to_iso

_ALL_TIME = timedelta(days=10_000 * 366)
"""Longer bounds accept any time. Polars cannot represent spans over some hundred thousand years."""

Lines = npt.NDArray[np.int64]
"""Line numbers, from 1."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that could not be read, or is not valid.

    Attributes:
        raw: its text.
        line: its line.
        reason: why.
        is_untimely: whether it is only too old, or too far in the future.
    """

    raw: str
    line: int
    reason: str
    is_untimely: bool = False


@dataclass(frozen=True)
class Rows:
    """The rows that a parser read from a chunk.

    Attributes:
        columns: the rows that could be read, by raw column names, not yet cast to the stream's types.
        lines: the line numbers of these rows.
        raw: returns the raw text of the row at a position in `columns`; called for bad rows only.
        rejects: the rows that could not be read.
        header: the header of a CSV file; empty for other formats.
        decimal: the decimal sign of numbers.
        broken: reasons why elements of the exploded list were replaced by NULL, by line and index.
        place_of: returns a prefix for the reason of the row at a position: its index in the line's list, if it is an element.
    """

    columns: pa.Table
    lines: Lines
    raw: Callable[[int], str]
    rejects: Sequence[Reject] = field(default=())
    header: str = ""
    decimal: str = "."
    broken: Mapping[tuple[int, int], str] = field(default_factory=dict)
    place_of: Callable[[int], str] = lambda position: ""


@dataclass(frozen=True)
class ValidatedRows:
    """A chunk's rows, each accepted or rejected.

    Attributes:
        read: number of rows that the parser found. If a list is exploded, each element is a row.
        accepted: the valid rows, with the event table's columns and types.
        lines: the line numbers of the accepted rows.
        rejects: the other rows, by line.
        untimed: number of accepted rows without an event time, which got their arrival time.
        without_zone: number of times that were taken for UTC, since neither they nor the stream name a zone.
        header: as in `Rows`.
    """

    read: int
    accepted: pl.DataFrame
    lines: Lines
    rejects: Sequence[Reject]
    untimed: int = 0
    without_zone: int = 0
    header: str = ""


def validate_rows(
    stream: Stream,
    rows: Rows,
    arrived: datetime | pl.Series,
    path: str | None = None,
    oldest: datetime | None = None,
) -> ValidatedRows:
    """Cast rows to the stream's types, and check them against its rules.

    Args:
        stream: the stream of the rows.
        rows: rows from a parser.
        arrived: when they arrived (UTC): one time for all, or one for each. Event times are bounded by it and not by this
            machine's clock, so that repeating a batch gives the same result.
        path: the value of columns that the stream takes from the file's path.
        oldest: the oldest event time that is accepted; None if any is.
    """
    read = rows.columns.num_rows + len(rows.rejects)
    if not rows.columns.num_rows:
        accepted = pl.DataFrame(stream.event_schema.empty_table())
        return ValidatedRows(read, accepted, rows.lines, rows.rejects, header=rows.header)
    columns = map_columns(stream, rows.columns, path)
    formats = {name: source.time for name, source in stream.sources.items() if source.time}
    reading = Reading(rows.decimal, stream.format.time_zone)
    typed, wrong, without_zone = cast_columns(columns, rows.columns.num_rows, stream.schema, reading, formats)
    # From the plan, so that a repeated batch writes the same rows as the first attempt.
    arrival = pl.lit(arrived).cast(pl.Datetime("us", "UTC")).alias(INGESTED_AT)
    frame = pl.DataFrame(typed).with_columns(arrival)
    lacks_time: pl.Series | None = None
    if stream.missing_time == "arrival":
        lacks_time = frame[stream.event_time].is_null()
        # A time that could not be cast is NULL here too, but `wrong` has its reason, and the row goes to quarantine.
        frame = frame.with_columns(pl.col(stream.event_time).fill_null(pl.col(INGESTED_AT)))
    faults, untimely = _faults(stream), _untimely(stream, oldest)
    conditions = [check.condition for check in (*faults, *untimely)]
    if wrong is not None:
        conditions.append(pl.lit(wrong).is_not_null())
    bad = frame.select(pl.any_horizontal(conditions).fill_null(value=False)).to_series()
    lines, rejects = rows.lines, list(rows.rejects)
    if bad.any():
        # Of these rows alone, since to write the reasons of all would take longer than to find the bad ones.
        cast_reasons = [] if wrong is None else [wrong.filter(bad)]
        reasons = frame.filter(bad).select(
            pl.coalesce(*cast_reasons, *(check.shown for check in faults)).alias("fault"),
            pl.coalesce(*(check.shown for check in untimely)).alias("untimely"),
        )
        for position, (fault, other) in zip(bad.arg_true().to_list(), reasons.iter_rows(), strict=True):
            reason = f"{rows.place_of(position)}{other if fault is None else fault}"
            rejects.append(Reject(rows.raw(position), int(lines[position]), reason, fault is None))
        frame, lines = frame.filter(~bad), lines[~bad.to_numpy()]
        lacks_time = None if lacks_time is None else lacks_time.filter(~bad)
    untimed = 0 if lacks_time is None else int(lacks_time.sum())
    rejects.sort(key=lambda reject: reject.line)
    without_zone = 0 if stream.format.zone else without_zone
    return ValidatedRows(read, frame, lines, rejects, untimed, without_zone, rows.header)


class _Check(NamedTuple):
    """A condition of rows that are rejected.

    Attributes:
        condition: the condition.
        reason: the reason, in which `{}` stands for the time.
        time: the column with that time; empty if the reason has none.
    """

    condition: pl.Expr
    reason: str
    time: str = ""

    @property
    def shown(self) -> pl.Expr:
        """The reason of a row that meets the condition; NULL for others."""
        if not self.time:
            return pl.when(self.condition).then(pl.lit(self.reason))
        return pl.when(self.condition).then(pl.format(self.reason, pl.col(self.time).dt.strftime(ISO_FORMAT)))


def _faults(stream: Stream) -> list[_Check]:
    """Return the checks of rows that are not valid, whenever they came."""
    missing = [
        _Check(pl.col(column.name).is_null(), f"{column.name} is missing{_wanted(stream, column.name)}")
        for column in stream.schema
        if not column.nullable or column.name == stream.event_time
    ]
    return [*missing, *(_Check(rule.broken, rule.reason) for rule in stream.rules)]


def _untimely(stream: Stream, oldest: datetime | None) -> list[_Check]:
    """Return the checks of rows that are too old, or too far in the future."""
    name, time = stream.event_time, pl.col(stream.event_time)
    bound = str(stream.future_bound).removesuffix(", 0:00:00")  # whole days, without a time
    future = _Check(
        time - pl.col(INGESTED_AT) > min(stream.future_bound, _ALL_TIME),
        f"{name} lies more than {bound} past its arrival: {{}}",
        name,
    )
    if oldest is None:
        return [future]
    return [future, _Check(time < oldest, f"{name} is too old, before {to_iso(oldest)} (max_age): {{}}", name)]


def _wanted(stream: Stream, column: str) -> str:
    """Return the raw names of a missing column's sources, for the reason, if they differ from the column's name."""
    source = stream.source(column)
    names = ("the line",) if source.json and not source.names else source.names
    return f": no value in {' or '.join(names)}" if names and names != (column,) else ""


class RawLines:
    """The raw lines of a chunk, split when the first one is requested."""

    def __init__(self, chunk: bytes | bytearray) -> None:
        self._chunk = chunk
        self._lines: Sequence[bytes | bytearray] | None = None

    def __call__(self, position: int) -> str:
        if self._lines is None:
            self._lines = self._chunk.split(b"\n")
        return line_text(self._lines[position])


def line_text(value: bytes | bytearray) -> str:
    """Return a line as text for quarantine."""
    return value.removesuffix(b"\r").decode("utf-8", "replace")
