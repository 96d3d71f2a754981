"""The shape that every parser hands over, and the validation that parts it into accepted and rejected rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from spark_jobs.ingest.parsing.casting import cast_columns
from spark_jobs.ingest.parsing.mapping import map_columns
from spark_jobs.streams import Stream
from spark_jobs.times import ISO_FORMAT

Lines = npt.NDArray[np.int64]
"""Numbers of lines, from 1."""


@dataclass(frozen=True)
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
    """

    columns: pa.Table
    lines: Lines
    raw: Callable[[int], str]
    rejects: Sequence[Reject] = field(default=())


@dataclass(frozen=True)
class ValidatedRows:
    """A chunk's rows, each accepted or rejected.

    Attributes:
        read: how many rows the parser found.
        accepted: those that are valid, in the stream's columns and types.
        lines: the line number of each accepted row.
        rejects: the others, by line.
    """

    read: int
    accepted: pl.DataFrame
    lines: Lines
    rejects: Sequence[Reject]


def validate_rows(stream: Stream, rows: Rows, arrived: datetime, path: str | None = None) -> ValidatedRows:
    """Type the rows and check them against the stream's rules.

    Args:
        stream: what the rows should be.
        rows: what a parser read.
        arrived: when they came (UTC); event times are bounded by it and never by the clock of this machine, so that
            a replay answers as the first run did.
        path: the value of columns that the stream takes from the file's path.
    """
    read = rows.columns.num_rows + len(rows.rejects)
    typed, wrong = cast_columns(map_columns(stream, rows.columns, path), stream.schema)
    frame = pl.DataFrame(typed)
    reasons = _reasons(stream, frame, wrong, arrived)
    lines, rejects = rows.lines, list(rows.rejects)
    if reasons.null_count() < len(reasons):
        bad = reasons.is_not_null()
        for position in bad.arg_true().to_list():
            rejects.append(Reject(rows.raw(position), int(lines[position]), reasons[position]))
        frame, lines = frame.filter(~bad), lines[~bad.to_numpy()]
    return ValidatedRows(read, frame, lines, sorted(rejects, key=lambda reject: reject.line))


def _reasons(stream: Stream, frame: pl.DataFrame, wrong: pl.Series, arrived: datetime) -> pl.Series:
    """Per row the first thing that is wrong with it, or NULL."""
    missing = [
        pl.when(pl.col(column.name).is_null()).then(pl.lit(f"{column.name} is missing{_wanted(stream, column.name)}"))
        for column in stream.schema
        if not column.nullable or column.name == stream.event_time
    ]
    rules = [pl.when(rule.broken).then(pl.lit(rule.reason)) for rule in stream.rules]
    time = pl.col(stream.event_time)
    bound = str(stream.future_bound).removesuffix(", 0:00:00")
    future = pl.when(time > _latest(arrived, stream.future_bound)).then(
        pl.format(
            f"{stream.event_time} lies more than {bound} past the arrival of its file: {{}}",
            time.dt.strftime(ISO_FORMAT),
        )
    )
    checks = [*missing, *rules, future]
    return frame.select(pl.coalesce(wrong, *checks).cast(pl.String).alias("reason")).to_series()


def _wanted(stream: Stream, column: str) -> str:
    """Which raw columns would have been the value, where their names do not say so themselves."""
    names = stream.source(column).names
    return f": no value in {' or '.join(names)}" if names and names != (column,) else ""


def _latest(arrived: datetime, bound: timedelta) -> datetime:
    try:
        return arrived + bound
    # A bound that leaves the calendar takes any time.
    except OverflowError:
        return datetime.max.replace(tzinfo=arrived.tzinfo)
