"""Reads CSV with a header: plain lines by Arrow's reader, and one by one only lines whose quoting is out of the plain.

A quoted field may hold commas, doubled quotes and line breaks. A quote that never closes costs its own line only, and
not all that follow.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc

from keyfold.ingestion.parsing.rows import Reject, Rows
from keyfold.ingestion.parsing.text import UnreadableFileError

MAX_ROW_LINES = 1000
MAX_ROW_CHARACTERS = 16 << 20
"""A quote that is not closed within so many lines and characters was not meant to open a field."""

MAX_COLUMNS = 10_000
"""Columns of a header: each costs memory in every chunk, also where the stream has no such column."""

_QUOTED = r'"(?:[^"]|"")*"'
_PLAIN = rf'^(?:{_QUOTED}|[^",]*)(?:,(?:{_QUOTED}|[^",]*))*$'
_BLANK = " \t"

csv.field_size_limit(1 << 30)  # the default of 128 KiB would reject rows that Arrow's reader accepts


def read_csv(schema: pa.Schema, text: Iterable[bytes]) -> Iterator[Rows]:
    """Read the chunks of a CSV file; every column as text, an empty field as NULL.

    Raises:
        UnreadableFileError: the header names a column of the schema twice, or has more than `MAX_COLUMNS`.
    """
    header: list[str] | None = None
    header_text = ""
    line, rest = 1, b""
    for chunk, is_last in _with_last(text):
        # Between rows, a chunk of blank lines alone holds none.
        if not rest and header is not None and not chunk.strip(b"\n"):
            line += chunk.count(b"\n")
            continue
        data = rest + chunk
        rest = b""
        # Without a quote a line is a row: the chunk goes to Arrow as it is, and is never split in Python. But for Arrow a
        # CR alone ends a line as well, and a blank line is a row of one field.
        is_plain = b'"' not in data and data.count(b"\r") == data.count(b"\r\n")
        if header is not None and len(header) > 1 and is_plain:
            count = data.count(b"\n") + (not data.endswith(b"\n"))
            table = _read(header, schema, data, count)
            if table is not None:
                yield Rows(table, np.arange(line, line + count, dtype=np.int64), _Raw(data), header=header_text)
                line += count
                continue
        final = is_last or not data.endswith(b"\n")
        # What is carried over keeps its CRs: of each line one is cut off once.
        whole = data.decode().removesuffix("\n").split("\n")
        lines = [one.removesuffix("\r") for one in whole]
        start = 0
        if header is None:
            start, header = _header(lines, schema, final=final)
            if header is None:
                rest = "".join(f"{one}\n" for one in whole[start:]).encode()
                line += start
                continue
            header_text = "\n".join(lines[:start]).lstrip()
        rows, used = _read_lines(header, schema, lines, start, line, final=final)
        rest = "".join(f"{one}\n" for one in whole[used:]).encode()
        line += used
        yield replace(rows, header=header_text)


def read_row(text: str) -> list[str] | None:
    """The values of one row, which a quoted field may spread over several lines; None where the text is not just that."""
    lines = text.split("\n")
    values, used, _, _ = _read_one(lines, 0)
    return values if used == len(lines) else None


class _Raw:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._lines: list[bytes] | None = None

    def __call__(self, position: int) -> str:
        if self._lines is None:
            self._lines = self._data.split(b"\n")
        return self._lines[position].removesuffix(b"\r").decode()


def _with_last(text: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each chunk, and whether it is the last one."""
    chunks = iter(text)
    before = next(chunks, None)
    if before is None:
        return
    for chunk in chunks:
        yield before, False
        before = chunk
    yield before, True


def _header(lines: Sequence[str], schema: pa.Schema, *, final: bool) -> tuple[int, list[str] | None]:
    """The column names and the position of the line after them; foreign columns get names that no schema has.

    Without names yet, the position of the line from which on they may stand.
    """
    for position, line in enumerate(lines):
        if line.strip(_BLANK):
            found, used, is_open, error = _read_one(lines, position)
            if is_open and not final:
                return position, None
            if found is None:
                raise UnreadableFileError(f"the CSV header cannot be read: {error}")
            if len(found) > MAX_COLUMNS:
                raise UnreadableFileError(
                    f"the CSV header has {len(found):,} columns, and {MAX_COLUMNS:,} at most are read"
                )
            names = [name.strip() for name in found]
            twice = sorted({name for name in schema.names if names.count(name) > 1})
            if twice:
                raise UnreadableFileError(f"the CSV header names {', '.join(twice)} twice")
            # Foreign columns may share a name: each gets one of its own, with NUL, which no column of a schema has.
            return position + used, [name if name in schema.names else f"\0{at}" for at, name in enumerate(names)]
    return len(lines), None


def _read_lines(
    header: list[str], schema: pa.Schema, lines: list[str], start: int, first_line: int, *, final: bool
) -> tuple[Rows, int]:
    """Read lines from `start` on; also returns how many lines are done with (a row may go on in the next chunk)."""
    series = pl.Series(lines, dtype=pl.String)
    quoted = series.str.contains('"', literal=True)
    plain = ~series.str.contains("\r", literal=True) & (~quoted | series.str.contains(_PLAIN))
    fields = (
        pl.select(
            pl.when(quoted)
            .then(series.str.replace_all(_QUOTED, ""))
            .otherwise(series)
            .str.count_matches(",", literal=True)
        ).to_series()
        + 1
    )
    todo = (series.str.strip_chars(_BLANK) != "").to_numpy().copy()
    todo[:start] = False
    end = len(lines)
    rejects: list[Reject] = []
    singles: list[tuple[int, int, list[str]]] = []
    for at in np.flatnonzero(todo & ~plain.to_numpy()).tolist():
        if not todo[at]:
            continue
        values, used, is_open, error = _read_one(lines, at)
        if is_open and not final:
            end = at  # the quote may yet close in the next chunk
            break
        if values is not None and len(values) != len(header):
            values, error = None, _miscounted(len(values), header)
        if values is None:
            rejects.append(Reject(lines[at], first_line + at, error))
            todo[at] = False
            continue
        singles.append((at, used, values))
        todo[at : at + used] = False
    todo[end:] = False
    right = fields.to_numpy() == len(header)
    for at in np.flatnonzero(todo & ~right).tolist():
        rejects.append(Reject(lines[at], first_line + at, _miscounted(int(fields[at]), header)))
    at_once = np.flatnonzero(todo & right)
    table = _read(header, schema, "\n".join(lines[at] for at in at_once.tolist()).encode(), len(at_once))
    if table is None:  # Arrow and this module differ on what a row is: Python's csv decides
        for at in at_once.tolist():
            values, _, _, error = _read_one(lines[at : at + 1], 0)
            if values is None:
                rejects.append(Reject(lines[at], first_line + at, error))
            else:
                singles.append((at, 1, values))
        at_once, table = at_once[:0], _text_table(header, schema, [])
    tables = [table, _text_table(header, schema, [values for _, _, values in singles])]
    positions = np.concatenate([at_once, np.array([at for at, _, _ in singles], dtype=np.int64)])
    lengths = {at: used for at, used, _ in singles}

    def raw(position: int) -> str:
        at = int(positions[position])
        return "\n".join(lines[at : at + lengths.get(at, 1)])

    return Rows(pa.concat_tables(tables), positions + first_line, raw, rejects), end


def _miscounted(found: int, header: list[str]) -> str:
    return f"the row has {found} fields, the header {len(header)}"


def _read_one(lines: Sequence[str], at: int) -> tuple[list[str] | None, int, bool, str]:
    """One row from a line on.

    Returns:
        Its values or None, how many lines were read for it, whether further lines may yet close it, what was wrong.
    """
    row = _Row(lines, at)
    reader = csv.reader(row, strict=True)
    try:
        return next(reader), reader.line_num, False, ""
    except csv.Error as error:
        # Its own words speak of how Python was to open the file.
        why = "a carriage return stands alone outside quotes" if "new-line" in str(error) else error
        return None, reader.line_num, row.is_open, f"not valid CSV: {why}"


class _Row:
    """The lines that a row may take up."""

    def __init__(self, lines: Sequence[str], at: int) -> None:
        self.is_open = False
        self._lines, self._at, self._end = lines, at, at + MAX_ROW_LINES
        self._left = MAX_ROW_CHARACTERS

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._left <= 0 or self._at == self._end:
            raise StopIteration
        if self._at == len(self._lines):
            self.is_open = True
            raise StopIteration
        line = self._lines[self._at]
        self._at, self._left = self._at + 1, self._left - len(line) - 1
        return f"{line}\n"


def _wanted(header: list[str], schema: pa.Schema) -> list[str]:
    return [name for name in header if name in schema.names] or header[:1]


def _read(header: list[str], schema: pa.Schema, text: bytes, count: int) -> pa.Table | None:
    """The table of exactly `count` rows, or None when the text holds anything else."""
    wanted = _wanted(header, schema)
    if not count:
        return _text_table(header, schema, [])
    try:
        table = pc.read_csv(
            pa.BufferReader(text),
            # One block, no threads: the text is cut into chunks already, and Spark starts a worker a core.
            read_options=pc.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=header),
            parse_options=pc.ParseOptions(newlines_in_values=False),
            convert_options=pc.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == count else None


def _text_table(header: list[str], schema: pa.Schema, rows: list[list[str]]) -> pa.Table:
    place = {name: at for at, name in enumerate(header)}
    wanted = _wanted(header, schema)
    return pa.table({name: pa.array([row[place[name]] or None for row in rows], pa.string()) for name in wanted})
