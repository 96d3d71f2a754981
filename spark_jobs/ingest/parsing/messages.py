"""Messages to validated rows: JSON objects, one a message, by the rules of a file's lines.

What would have a file rejected as a whole (it is binary, not UTF-8, too long) rejects one message: others have nothing to
do with it. A message that is blank, or has no value, is rejected too: each one is a row, and all are accounted for.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from spark_jobs.ingest.parsing.json_lines import read_objects, read_values
from spark_jobs.ingest.parsing.rows import Reject, Rows, ValidatedRows, validate_rows
from spark_jobs.streams import Stream

Numbers = npt.NDArray[np.int64]

_BLANK = b" \t\r\n"


def parse_messages(
    stream: Stream,
    values: Sequence[bytes | None],
    numbers: Numbers,
    arrived: datetime | pl.Series,
    *,
    beside: pa.Table | None = None,
    faults: Mapping[int, str] | None = None,
    path: str | None = None,
) -> ValidatedRows:
    """Parse messages, wherever they came from.

    Args:
        stream: what they should be.
        values: the raw objects; None where a message has none.
        numbers: the number of each, which grows, for its row's `lines`.
        arrived: when they came (UTC): all at once, or each for itself.
        beside: raw columns that are not of the value, a row a message; the value's own of these names are left out.
        faults: by position, what is wrong with a message but for its value.
        path: the value of columns that the stream takes from the path.
    """
    own = {} if beside is None else {name: beside.column(name) for name in beside.column_names}
    schema = pa.schema([field for field in stream.raw_schema if field.name not in own])
    rejects = _unreadable(stream, values, numbers, faults or {})
    if rejects:
        good = np.setdiff1d(np.arange(len(values)), list(rejects))
        taken = [values[at] for at in good.tolist()]
    else:
        good, taken = np.arange(len(values)), values
    rows = _read(schema, [value for value in taken if value is not None], numbers[good], stream.missing)
    # Numbers grow: where a row's stands is where its message is.
    at = np.searchsorted(numbers, rows.lines)
    columns = rows.columns
    for name, column in own.items():
        columns = columns.append_column(name, column.take(pa.array(at)))
    return validate_rows(
        stream,
        Rows(columns, rows.lines, rows.raw, [*rows.rejects, *rejects.values()]),
        arrived if isinstance(arrived, datetime) else arrived.gather(at),
        path,
    )


def _read(schema: pa.Schema, values: Sequence[bytes], numbers: Numbers, missing: tuple[str, ...]) -> Rows:
    text = b"\n".join(values)
    # At once where no message has lines of its own; else each is looked at.
    if values and text.count(b"\n") == len(values) - 1:
        table = read_objects(schema, text, len(values))
        if table is not None:
            return Rows(table, numbers, lambda position: values[position].decode())
    return read_values(schema, values, numbers, missing)


def _unreadable(
    stream: Stream, values: Sequence[bytes | None], numbers: Numbers, faults: Mapping[int, str]
) -> dict[int, Reject]:
    """By position, the messages that no parser needs to see."""
    found = {at: Reject(_shown(values[at]), int(numbers[at]), reason) for at, reason in faults.items()}
    limit = stream.max_line_bytes
    text = b"".join(value for value in values if value is not None)
    # Nearly always nothing is wrong: one look at all of them tells.
    is_clean = len(text) <= limit or max(len(value or b"") for value in values) <= limit
    if is_clean and all(values) and b"\0" not in text and (text.isascii() or _decodes(values)):
        suspects = [at for at, value in enumerate(values) if value and value[:1] in _BLANKS]
    else:
        suspects = list(range(len(values)))
    for at in suspects:
        reason = _reason(values[at], limit)
        if reason and at not in found:
            found[at] = Reject(_shown(values[at]), int(numbers[at]), reason)
    return found


_BLANKS = {b" ", b"\t", b"\r", b"\n"}


def _decodes(values: Sequence[bytes | None]) -> bool:
    try:
        # With a separator: the halves of a character in two messages must not make one.
        b"\n".join(value for value in values if value is not None).decode()
    except UnicodeDecodeError:
        return False
    return True


def _reason(value: bytes | None, limit: int) -> str | None:
    if value is None:
        return "the message has no value (a tombstone)"
    if len(value) > limit:
        return f"the message has {len(value):,} bytes, and {limit:,} are its stream's limit"
    if not value.strip(_BLANK):
        return "the message is empty"
    if b"\0" in value:
        return "the message holds NUL bytes: it is binary, or UTF-16"
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"the message is not UTF-8: {error.reason} at byte {error.start}"
    return None


def _shown(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "backslashreplace")
