"""The shape that every parser hands over, and the judgement that turns it into accepted and rejected rows.

A parsed table has the stream's columns, all nullable, and `raw`, `file`, `line`, `reason`:

| row              | stream's columns | raw      | line     | reason   |
|------------------|------------------|----------|----------|----------|
| accepted         | typed values     | NULL     | its line | NULL     |
| rejected         | NULL             | its text | its line | why      |
| file rejected    | NULL             | NULL     | NULL     | why      |
| file was read    | NULL             | NULL     | NULL     | NULL     |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pyarrow as pa

from spark_jobs.parsing.casting import cast_columns
from spark_jobs.parsing.mapping import map_columns
from spark_jobs.streams import Stream

MARKS = (
    pa.field("raw", pa.string()),
    pa.field("file", pa.string()),
    pa.field("line", pa.int64()),
    pa.field("reason", pa.string()),
)
"""The columns of a parsed table besides the stream's own."""


@dataclass(frozen=True)
class Reject:
    """One row that could not be read as the stream's columns."""

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
    lines: np.ndarray
    raw: Callable[[int], str]
    rejects: Sequence[Reject] = field(default=())


def parsed_schema(stream: Stream) -> pa.Schema:
    """The Arrow schema of a parsed table of the stream."""
    return pa.schema([column.with_nullable(True) for column in stream.schema] + list(MARKS))


def judge(stream: Stream, rows: Rows, file: str, arrived: datetime, path: str | None = None) -> pa.Table:
    """Type the rows, check them against the stream's rules, and lay them out as a parsed table.

    Args:
        stream: what the rows should be.
        rows: what a parser read.
        file: where they came from.
        arrived: when they came (UTC); event times are bounded by it and never by the clock of this machine, so that
            a replay judges as the first run did.
        path: the value of columns that the stream takes from the file's path.
    """
    typed, wrong = cast_columns(map_columns(stream, rows.columns, path), stream.schema)
    reasons = _reasons(stream, typed, wrong, arrived)
    good, rejects = typed, list(rows.rejects)
    lines = rows.lines
    if reasons.null_count() < len(reasons):
        bad = reasons.is_not_null()
        for position in bad.arg_true().to_list():
            rejects.append(Reject(rows.raw(position), int(lines[position]), reasons[position]))
        keep = (~bad).to_numpy()
        good, lines = typed.filter(pa.array(keep)), lines[keep]
    schema = parsed_schema(stream)
    count = good.num_rows
    accepted = pa.table(
        [
            *(good.column(name) for name in stream.schema.names),
            pa.nulls(count, pa.string()),
            pa.repeat(pa.scalar(file, pa.string()), count),
            pa.array(lines, pa.int64()),
            pa.nulls(count, pa.string()),
        ],
        schema=schema,
    )
    if not rejects:
        return accepted
    return pa.concat_tables([accepted, _rejected(schema, rejects, file)])


def whole_file(stream: Stream, file: str, reason: str | None) -> pa.Table:
    """The one row that says that a file was read (no reason), or that it could not be (reason)."""
    row = {"file": file, "reason": reason}
    return pa.Table.from_pylist([row], schema=parsed_schema(stream))


def _rejected(schema: pa.Schema, rejects: Sequence[Reject], file: str) -> pa.Table:
    rows = [
        {"raw": reject.raw, "file": file, "line": reject.line, "reason": reject.reason}
        for reject in sorted(rejects, key=lambda reject: reject.line)
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _reasons(stream: Stream, typed: pa.Table, wrong: pl.Series, arrived: datetime) -> pl.Series:
    """Per row the first thing that is wrong with it, or NULL."""
    frame = pl.from_arrow(typed)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table is a frame; this tells the type checker so
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
            time.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"),
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
    except OverflowError:
        return datetime.max.replace(tzinfo=arrived.tzinfo)
