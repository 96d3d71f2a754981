"""Choose a stream's rows in a landing that streams share: each row belongs to the stream whose condition it fulfils.

Conditions are evaluated first, on raw columns as text. Then each row is read with the columns and types of its own stream
only. So the result is the same as from a file with only that stream's rows.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from keyfold.ingestion.parsing.casting import to_series
from keyfold.ingestion.parsing.json_lines import read_objects, read_values
from keyfold.ingestion.parsing.json_texts import text_at
from keyfold.ingestion.parsing.mapping import as_json, raw_values
from keyfold.ingestion.parsing.rows import Reject, Rows, line_text
from keyfold.stream import Stream
from keyfold.stream.raw_paths import Path, path_of, read_schema

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_BLANK = b" \t\r\n"


class Routes:
    """The conditions of streams that share a landing, for reading the rows of one of them.

    Attributes:
        stream: the stream whose rows are wanted. The first one also gets the rows that belong to none or to several.
        columns: the raw columns of the conditions.
    """

    def __init__(self, stream: Stream, streams: Sequence[Stream]) -> None:
        self.stream = stream
        self.columns = tuple(dict.fromkeys(name for one in streams for name in one.condition_columns))
        self._streams = streams
        self._names = [one.name for one in streams]

    @property
    def raw_columns(self) -> pa.Schema:
        """The raw columns of the stream and of the conditions, without types."""
        names = dict.fromkeys((*self.stream.raw_schema.names, *(str(path_of(name)[0]) for name in self.columns)))
        return pa.schema([(name, pa.null()) for name in names])

    def choose(
        self, texts: pl.DataFrame, unread: Sequence[Reject], reject: Callable[[int, str], Reject]
    ) -> tuple[Numbers, list[Reject]]:
        """Choose the stream's rows.

        Args:
            texts: the columns of the conditions, as text.
            unread: the rows that could not be read.
            reject: makes the reject of a row, with its reason.

        Returns:
            The positions of the stream's rows, and the rejects that go to it: none, unless it is the first one.
        """
        held = np.zeros((texts.height, len(self._names)), np.bool_)
        for at, stream in enumerate(self._streams):
            assert stream.condition is not None  # noqa: S101 - `check_sharing` has checked it
            held[:, at] = texts.with_columns(stream.condition.alias("\0"))["\0"].to_numpy()
        count, place = held.sum(axis=1), self._names.index(self.stream.name)
        rejects = (
            []
            if place
            else [*unread, *(reject(at, self._reason(held[at])) for at in np.flatnonzero(count != 1).tolist())]
        )
        return np.flatnonzero(held[:, place] & (count == 1)), rejects

    def _reason(self, held: Mask) -> str:
        if not held.any():
            return f"it belongs to no stream: no condition holds of those of {', '.join(self._names)}"
        names = " and ".join(compress(self._names, held))
        return f"it belongs to several streams: the conditions of {names} hold"


@dataclass(frozen=True)
class Keys:
    """The columns of the conditions.

    Attributes:
        texts: the columns, as text.
        at: the position of each row in the input.
        rejects: rows that could not be read.
    """

    texts: pl.DataFrame
    at: Numbers
    rejects: Sequence[Reject] = ()


def route_lines(routes: Routes, text: Iterator[bytes]) -> Iterator[Rows]:
    """Yield the stream's rows of JSON lines."""
    line = 1
    for chunk in text:
        ended = chunk.count(b"\n")
        if chunk.strip(_BLANK):
            values = chunk.split(b"\n")
            yield _route_values(routes, values, np.arange(line, line + len(values), dtype=np.int64))
        line += ended


def _route_values(routes: Routes, values: Sequence[bytes], numbers: Numbers) -> Rows:
    keys = read_keys(routes.columns, values, numbers)
    chosen, rejects = routes.choose(
        keys.texts,
        keys.rejects,
        lambda row, why: Reject(line_text(values[keys.at[row]]), int(numbers[keys.at[row]]), why),
    )
    own = np.sort(keys.at[chosen])
    rows = _read_lines(routes.stream, [values[at] for at in own], numbers[own]) if len(own) else rejected([])
    return replace(rows, rejects=[*rows.rejects, *rejects])


def route_rows(routes: Routes, rows: Rows) -> Rows:
    """Return the stream's rows of those that are columns already (CSV, Parquet)."""
    texts = pl.DataFrame({name: text_of(rows.columns, name) for name in routes.columns})
    own, rejects = routes.choose(texts, rows.rejects, lambda row, why: Reject(rows.raw(row), int(rows.lines[row]), why))
    return replace(
        rows,
        columns=rows.columns.take(pa.array(own)),
        lines=rows.lines[own],
        raw=lambda position: rows.raw(int(own[position])),
        rejects=rejects,
    )


def rejected(rejects: Sequence[Reject], header: str = "") -> Rows:
    """Return `Rows` with only rejects."""
    return Rows(pa.table({}), np.zeros(0, np.int64), lambda position: "", rejects, header)


def all_rejected(rows: Rows, reason: str) -> Rows:
    """Reject all rows for the same reason."""
    every = [Reject(rows.raw(at), line, reason) for at, line in enumerate(rows.lines.tolist())]
    return rejected([*rows.rejects, *every], rows.header)


def read_keys(columns: Sequence[str], values: Sequence[bytes], numbers: Numbers) -> Keys:
    """Read the columns of the conditions from JSON objects."""
    # Lines that were split from a chunk end in an empty text, which follows the last newline.
    there = values[:-1] if values and not values[-1] else values
    text = b"\n".join(there)
    schema = read_schema((name, pa.string()) for name in columns)
    # A message may contain line breaks.
    table = read_objects(schema, text, len(there)) if text.count(b"\n") == len(there) - 1 else None
    if table is not None:
        return Keys(pl.DataFrame({name: text_of(table, name) for name in columns}), np.arange(len(there)))
    # Some line is not an object, or some value is not text: take the JSON text of each value.
    rows = read_values(pa.schema([]), values, numbers)
    at = np.searchsorted(numbers, rows.lines)
    if not len(at):
        return Keys(pl.DataFrame(schema=dict.fromkeys(columns, pl.String)), at, rows.rejects)
    lines = [values[one].strip(_BLANK).decode() for one in at.tolist()]
    ways = {name: [_texts(lines, path) for path in dict.fromkeys(((name,), path_of(name)))] for name in columns}
    texts = {name: pl.select(pl.coalesce(*map(_unquoted, either))).to_series() for name, either in ways.items()}
    return Keys(pl.DataFrame(texts), at, rows.rejects)


def _texts(lines: Sequence[str], path: Path) -> pl.Series:
    """Return the JSON text of the value at a path, for each line; NULL also if the line cannot be searched."""
    texts: list[str | None] = []
    for line in lines:
        try:
            texts.append(text_at(line, path))
        except ValueError:
            texts.append(None)
    return pl.Series(texts, dtype=pl.String)


def text_of(table: pa.Table, name: str) -> pl.Series:
    """Return a raw column as text; NULL if there is no such column."""
    texts = [_as_text(column) for column in raw_values(table, name)]
    return pl.select(pl.coalesce(*texts, pl.repeat(None, table.num_rows, dtype=pl.String))).to_series().alias(name)


def _read_lines(stream: Stream, values: list[bytes], numbers: Numbers) -> Rows:
    table = read_objects(stream.raw_schema, b"\n".join(values), len(values))
    if table is None:
        return read_values(stream.raw_schema, values, numbers, stream.missing)
    return Rows(table, numbers, lambda position: line_text(values[position]))


def _as_text(column: pa.ChunkedArray) -> pl.Series:
    values = to_series(column)
    if values.dtype in (pl.String, pl.Null):
        return values.cast(pl.String)
    # Bytes are not text in any format: make them NULL.
    return (
        values.clear(len(values)).cast(pl.String)
        if values.dtype == pl.Binary
        else _unquoted(pl.Series(pl.from_arrow(as_json(column))))
    )


def _unquoted(given: pl.Series) -> pl.Series:
    """Decode JSON texts that are strings; leave others as they are."""
    is_text = given.str.starts_with('"').fill_null(value=False)
    plain = given.zip_with(~is_text, given.str.strip_prefix('"').str.strip_suffix('"'))
    escaped = (is_text & given.str.contains("\\", literal=True)).arg_true()
    if not len(escaped):
        return plain
    decoded = [json.loads(one).encode("utf-8", "backslashreplace").decode() for one in given.gather(escaped)]
    return plain.scatter(escaped, decoded)
