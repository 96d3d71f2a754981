"""Read CSV with a header: plain lines together with Arrow's reader, and with Python's csv what it does not take (`dividing`).

A quoted field may hold commas, doubled quotes and line breaks. A quote that is never closed rejects only its own line.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.ingestion.parsing.dividing import divide
from keyfold.ingestion.parsing.rows import RawLines, Reject, Rows
from keyfold.ingestion.parsing.text import UnreadableFileError, line_ends

MAX_ROW_LINES = 1000
MAX_ROW_CHARACTERS = 16 << 20
"""A quote that is not closed within this many lines and characters does not open a field."""

SEPARATORS = (";", "\t", "|")
"""What else than a comma separates the fields of many files."""

MAX_COLUMNS = 10_000
"""Maximum columns of a header. Each costs memory in every chunk, even if the stream does not use it."""

_QUOTED = r'"(?:[^"]|"")*"'
_BLANK = " \t"

csv.field_size_limit(1 << 30)  # with the default of 128 KiB, rows that Arrow's reader accepts would be rejected


def read_csv(schema: pa.Schema, text: Iterable[bytes | bytearray], delimiter: str = ",") -> Iterator[Rows]:
    """Read the chunks of a CSV file. All columns are text, and empty fields are NULL.

    Args:
        schema: the columns that are read.
        text: chunks of whole lines.
        delimiter: what separates fields.

    Raises:
        UnreadableFileError: the header has no column of the schema, or one of them twice, or more than `MAX_COLUMNS` columns.
    """
    header: list[str] | None = None
    header_text = ""
    line, rest = 1, b""
    for chunk, is_last in _with_last(text):
        # Skip a chunk of only blank lines, unless it is inside a quoted field.
        if not rest and header is not None and not chunk.strip(b"\n"):
            line += line_ends(chunk)
            continue
        data = rest + chunk if rest else chunk
        rest = b""
        # Without quotes, each line is a row, and Arrow reads the whole chunk. Two exceptions: for Arrow, a single CR ends a
        # line too, and a blank line is a row with one field.
        is_plain = b'"' not in data and (b"\r" not in data or data.count(b"\r") == data.count(b"\r\n"))
        if header is not None and len(header) > 1 and is_plain:
            count = line_ends(data) + (not data.endswith(b"\n"))
            table = _read(header, schema, data, count, delimiter)
            if table is not None:
                yield Rows(table, np.arange(line, line + count, dtype=np.int64), RawLines(data), header=header_text)
                line += count
                continue
        final = is_last or not data.endswith(b"\n")
        # `raw_lines` keep their CRs for lines that are carried over to the next chunk: only one CR of a line may be cut off.
        raw_lines = data.decode().removesuffix("\n").split("\n")
        lines = [raw_line.removesuffix("\r") for raw_line in raw_lines]
        start = 0
        if header is None:
            start, header = _header(lines, schema, delimiter, final=final)
            if header is None:
                rest = "".join(f"{raw_line}\n" for raw_line in raw_lines[start:]).encode()
                line += start
                continue
            header_text = "\n".join(lines[:start]).lstrip()
        rows, used = _read_lines(header, schema, lines, start, line, delimiter, final=final)
        rest = "".join(f"{raw_line}\n" for raw_line in raw_lines[used:]).encode()
        line += used
        yield replace(rows, header=header_text)


def read_row(text: str, delimiter: str = ",") -> list[str] | None:
    """Return the values of a row, whose quoted fields may have several lines; None if the text is not exactly one row."""
    lines = text.split("\n")
    values, used, _, _ = _read_row_at(lines, 0, delimiter)
    return values if used == len(lines) else None


def _with_last(text: Iterable[bytes | bytearray]) -> Iterator[tuple[bytes | bytearray, bool]]:
    """Yield each chunk, and whether it is the last one."""
    chunks = iter(text)
    before = next(chunks, None)
    if before is None:
        return
    for chunk in chunks:
        yield before, False
        before = chunk
    yield before, True


def _header(lines: Sequence[str], schema: pa.Schema, delimiter: str, *, final: bool) -> tuple[int, list[str] | None]:
    """Return the position of the line after the header, and the column names, with other names for columns not in the schema.

    If the header is not complete yet: the position of the line where it may begin, and None.
    """
    for position, line in enumerate(lines):
        if line.strip(_BLANK):
            fields, used, is_open, error = _read_row_at(lines, position, delimiter)
            if is_open and not final:
                return position, None
            if fields is None:
                raise UnreadableFileError(f"the CSV header cannot be read: {error}")
            if len(fields) > MAX_COLUMNS:
                raise UnreadableFileError(
                    f"the CSV header has {len(fields):,} columns, and at most {MAX_COLUMNS:,} are read"
                )
            names = [name.strip() for name in fields]
            twice = sorted({name for name in schema.names if names.count(name) > 1})
            if twice:
                raise UnreadableFileError(f"the CSV header names {', '.join(twice)} twice")
            if not any(name in schema.names for name in names):
                other = next((sign for sign in SEPARATORS if len(names) == 1 and sign in names[0]), None)
                raise UnreadableFileError(
                    "the CSV header names no column of the stream: "
                    + (
                        f"declare format=FileFormat(delimiter={other!r})"
                        if other
                        else "write one, if the file begins with its first row"
                    )
                )
            # Columns not in the schema may share a name. Each gets a unique one with NUL, which no schema has.
            return position + used, [name if name in schema.names else f"\0{at}" for at, name in enumerate(names)]
    return len(lines), None


def _read_lines(
    header: list[str],
    schema: pa.Schema,
    lines: list[str],
    start: int,
    first_line: int,
    delimiter: str,
    *,
    final: bool,
) -> tuple[Rows, int]:
    """Read lines from `start` on. Also returns how many lines were used, as a row may continue in the next chunk."""
    # Lines with balanced quotes and no CR are rows by themselves: Arrow reads them together. The others go to Python's csv.
    series, sign = pl.Series(lines, dtype=pl.String), re.escape(delimiter)
    field = rf'(?:{_QUOTED}|[^"{sign}]*)'
    is_plain = ~series.str.contains("\r", literal=True) & (
        ~series.str.contains('"', literal=True) | series.str.contains(rf"^{field}(?:{sign}{field})*$")
    )
    is_left = (series.str.strip_chars(_BLANK) != "").to_numpy().copy()
    is_left[:start] = False
    end = len(lines)
    rejects: list[Reject] = []
    singles: list[tuple[int, int, list[str]]] = []
    for at in np.flatnonzero(is_left & ~is_plain.to_numpy()).tolist():
        # Part of a row that began on an earlier line.
        if not is_left[at]:
            continue
        values, used, is_open, error = _read_row_at(lines, at, delimiter, len(header))
        if is_open and not final:
            end = at  # the quote may be closed in the next chunk
            break
        if values is None:
            rejects.append(Reject(lines[at], first_line + at, error))
            used = 1
        else:
            singles.append((at, used, values))
        is_left[at : at + used] = False
    is_left[end:] = False
    plain = np.flatnonzero(is_left)
    texts = [lines[at].encode() for at in plain.tolist()]
    divided = divide(
        len(texts),
        lambda first, last: _read(header, schema, b"\n".join(texts[first:last]), last - first, delimiter),
    )
    for at in plain[divided.left].tolist():
        values, _, _, error = _read_row_at(lines[at : at + 1], 0, delimiter, len(header))
        if values is None:
            rejects.append(Reject(lines[at], first_line + at, error))
        else:
            singles.append((at, 1, values))
    tables = [_text_table(header, schema, [values for _, _, values in singles])]
    positions = np.array([at for at, _, _ in singles], dtype=np.int64)
    if divided.table is not None:
        tables, positions = [divided.table, *tables], np.concatenate([plain[divided.taken], positions])
    lengths = {at: used for at, used, _ in singles}

    def raw(position: int) -> str:
        at = int(positions[position])
        return "\n".join(lines[at : at + lengths.get(at, 1)])

    return Rows(pa.concat_tables(tables), positions + first_line, raw, rejects), end


def _read_row_at(
    lines: Sequence[str], at: int, delimiter: str, fields: int | None = None
) -> tuple[list[str] | None, int, bool, str]:
    """Read one row from a line on.

    Args:
        fields: how many it must have; None for any number.

    Returns:
        Its values or None, the number of lines read, whether the next chunk may complete the row, and what was wrong.
    """
    row = _Row(lines, at)
    reader = csv.reader(row, strict=True, delimiter=delimiter)
    try:
        values = next(reader)
    except csv.Error as error:
        # Python's text for this error is about how to open the file.
        reason = "a carriage return stands alone outside quotes" if "new-line" in str(error) else error
        return None, reader.line_num, row.is_open, f"not valid CSV: {reason}"
    if fields is not None and len(values) != fields:
        return None, reader.line_num, False, f"the row has {len(values)} fields, the header {fields}"
    return values, reader.line_num, False, ""


class _Row:
    """An iterator over the lines that a row may have."""

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
    return [name for name in header if name in schema.names]


def _read(header: list[str], schema: pa.Schema, text: bytes | bytearray, count: int, delimiter: str) -> pa.Table | None:
    """Read exactly `count` rows with Arrow; None if the text holds anything else."""
    import pyarrow.csv as pc  # noqa: PLC0415 - takes 30 ms

    wanted = _wanted(header, schema)
    if not count:
        return _text_table(header, schema, [])
    try:
        table = pc.read_csv(
            pa.BufferReader(text),
            # One block and no threads: the text is already cut into chunks, and Spark starts one worker per core.
            read_options=pc.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=header),
            parse_options=pc.ParseOptions(delimiter=delimiter, newlines_in_values=False),
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
