"""The shape that every parser hands over, and the validation that parts it into accepted and rejected rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from keyfold.ingestion.parsing.casting import cast_columns
from keyfold.ingestion.parsing.mapping import map_columns
from keyfold.stream import INGESTED_AT, Stream
from keyfold.times import ISO_FORMAT, to_iso

_ALL_TIME = timedelta(days=10_000 * 366)
"""A longer bound takes any time, and Polars counts no span of more than some hundred thousand years."""

Lines = npt.NDArray[np.int64]
"""Numbers of lines, from 1."""


@dataclass(frozen=True, slots=True)
class Reject:
    """One row that could not be read as the stream's columns, or is not valid."""

    raw: str
    line: int
    reason: str


@dataclass(frozen=True)
class Rows:
    """What a format's parser found in one chunk.

    Attributes:
        columns: the rows that could be read, columns by their raw names, not yet of the stream's types.
        lines: the line number of each of those rows.
        raw: gives the raw text of the row at a position in `columns`; asked for bad rows only.
        rejects: the rows that could not be read.
        header: of CSV, the text that names its columns; empty of others.
        broken: by line and place, why an element of the list whose elements are events is none; NULL stands there.
        where: begins the reason of the row at a position: where in its line it is, if it is not the whole line.
    """

    columns: pa.Table
    lines: Lines
    raw: Callable[[int], str]
    rejects: Sequence[Reject] = field(default=())
    header: str = ""
    broken: Mapping[tuple[int, int], str] = field(default_factory=dict)
    where: Callable[[int], str] = lambda position: ""


@dataclass(frozen=True)
class ValidatedRows:
    """A chunk's rows, each accepted or rejected.

    Attributes:
        read: how many rows the parser found; each element is one where a list's elements are events.
        accepted: those that are valid, in the event table's columns and types.
        lines: the line number of each accepted row.
        rejects: the others, by line.
        untimed: how many accepted rows had no time of their own, so that their arrival stands in.
        header: as of `Rows`.
    """

    read: int
    accepted: pl.DataFrame
    lines: Lines
    rejects: Sequence[Reject]
    untimed: int = 0
    header: str = ""


def validate_rows(
    stream: Stream,
    rows: Rows,
    arrived: datetime | pl.Series,
    path: str | None = None,
    oldest: datetime | None = None,
) -> ValidatedRows:
    """Type the rows and check them against the stream's rules.

    Args:
        stream: what the rows should be.
        rows: what a parser read.
        arrived: when they came (UTC), all at once or each for itself; event times are bounded by it and never by the
            clock of this machine, so that a replay answers as the first run did.
        path: the value of columns that the stream takes from the file's path.
        oldest: the least event time that is accepted; None where any is.
    """
    read = rows.columns.num_rows + len(rows.rejects)
    typed, wrong = cast_columns(map_columns(stream, rows.columns, path), rows.columns.num_rows, stream.schema)
    # Of the plan, as the bound is: a replay writes what the first attempt would have written.
    arrival = pl.lit(arrived).cast(pl.Datetime("us", "UTC")).alias(INGESTED_AT)
    frame = pl.DataFrame(typed).with_columns(arrival)
    lacks_time = pl.repeat(value=False, n=frame.height, dtype=pl.Boolean, eager=True)
    if stream.missing_time == "arrival":
        lacks_time = frame[stream.event_time].is_null()
        # A value that is there and would not go is NULL by now too: `wrong` has it, and it goes to quarantine.
        frame = frame.with_columns(pl.col(stream.event_time).fill_null(pl.col(INGESTED_AT)))
    reasons = _reasons(stream, frame, wrong, oldest)
    lines, rejects = rows.lines, list(rows.rejects)
    if reasons.null_count() < len(reasons):
        bad = reasons.is_not_null()
        for position in bad.arg_true().to_list():
            reason = f"{rows.where(position)}{reasons[position]}"
            rejects.append(Reject(rows.raw(position), int(lines[position]), reason))
        frame, lines, lacks_time = frame.filter(~bad), lines[~bad.to_numpy()], lacks_time.filter(~bad)
    rejects.sort(key=lambda reject: reject.line)
    return ValidatedRows(read, frame, lines, rejects, int(lacks_time.sum()), rows.header)


def none_accepted(stream: Stream, rows: Rows) -> ValidatedRows:
    """Rows of which the parser could read none."""
    accepted = pl.DataFrame(stream.event_schema.empty_table())
    return ValidatedRows(len(rows.rejects), accepted, rows.lines, rows.rejects, header=rows.header)


def _reasons(stream: Stream, frame: pl.DataFrame, wrong: pl.Series, oldest: datetime | None) -> pl.Series:
    """Per row the first thing that is wrong with it, or NULL."""
    missing = [
        pl.when(pl.col(column.name).is_null()).then(pl.lit(f"{column.name} is missing{_wanted(stream, column.name)}"))
        for column in stream.schema
        if not column.nullable or column.name == stream.event_time
    ]
    rules = [pl.when(rule.broken).then(pl.lit(rule.reason)) for rule in stream.rules]
    time = pl.col(stream.event_time)
    bound = str(stream.future_bound).removesuffix(", 0:00:00")
    future = pl.when(time - pl.col(INGESTED_AT) > min(stream.future_bound, _ALL_TIME)).then(
        pl.format(
            f"{stream.event_time} lies more than {bound} past its arrival: {{}}",
            time.dt.strftime(ISO_FORMAT),
        )
    )
    checks = [*missing, *rules, future]
    if oldest is not None:
        too_old = f"{stream.event_time} is too old, before {to_iso(oldest)} (max_age): {{}}"
        checks.append(pl.when(time < oldest).then(pl.format(too_old, time.dt.strftime(ISO_FORMAT))))
    return frame.select(pl.coalesce(wrong, *checks).cast(pl.String).alias("reason")).to_series()


def _wanted(stream: Stream, column: str) -> str:
    """Which raw columns would have been the value, where their names do not say so themselves."""
    source = stream.source(column)
    names = ("the line",) if source.json and not source.names else source.names
    return f": no value in {' or '.join(names)}" if names and names != (column,) else ""
