"""Parse Kafka messages into validated rows: one JSON object per message, by the rules for lines of a file.

Faults that reject a file as a whole (binary, not UTF-8, too long) reject a single message. Blank messages and messages
without a value are rejected too, so that every message is accounted for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from keyfold.ingestion.parsing.exploding import exploded
from keyfold.ingestion.parsing.json_lines import read_objects, read_values
from keyfold.ingestion.parsing.rows import Reject, Rows, ValidatedRows, validate_rows
from keyfold.stream import Stream

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
    oldest: datetime | None = None,
) -> ValidatedRows:
    """Parse messages.

    Args:
        stream: the stream of the messages.
        values: the raw values; None for a message without one.
        numbers: increasing numbers of the messages, for their rows' `lines`.
        arrived: when they arrived (UTC): one time for all, or one for each.
        beside: raw columns from outside of the value, one row per message. They take precedence over the value's fields.
        faults: faults of messages outside of their values, by position.
        path: the value of columns that the stream takes from the path.
        oldest: the oldest event time that is accepted; None if any is.
    """
    faults = faults or {}
    own = {} if beside is None else {name: beside.column(name) for name in beside.column_names}
    schema = pa.schema([field for field in stream.raw_schema if field.name not in own])
    rows = None if faults else _read_at_once(stream, schema, values, numbers)
    if rows is None:
        rows = _read_one_by_one(stream, schema, values, numbers, faults)
    # As numbers increase, a search for a row's number finds the position of its message.
    columns, at = rows.columns, np.searchsorted(numbers, rows.lines)
    for name, column in own.items():
        columns = columns.append_column(name, column.take(pa.array(at)))
    parts = []
    for part in exploded(stream, replace(rows, columns=columns)):
        at = np.searchsorted(numbers, part.lines)
        arrivals = arrived if isinstance(arrived, datetime) else arrived.gather(at)
        parts.append(validate_rows(stream, part, arrivals, path, oldest))
    return parts[0] if len(parts) == 1 else _together(parts)


def _parted(
    values: Sequence[bytes | None], numbers: Numbers, reasons: Sequence[str | None]
) -> tuple[list[Reject], Numbers]:
    """Return the messages with a reason to reject them, and the positions of the others."""
    rejects = [
        Reject(_shown(value), int(number), reason)
        for value, number, reason in zip(values, numbers, reasons, strict=True)
        if reason
    ]
    return rejects, np.array([at for at, reason in enumerate(reasons) if not reason], np.int64)


def _together(parts: Sequence[ValidatedRows]) -> ValidatedRows:
    return ValidatedRows(
        read=sum(part.read for part in parts),
        accepted=pl.concat([part.accepted for part in parts]),
        lines=np.concatenate([part.lines for part in parts]),
        rejects=[reject for part in parts for reject in part.rejects],
        untimed=sum(part.untimed for part in parts),
    )


def _read_at_once(stream: Stream, schema: pa.Schema, values: Sequence[bytes | None], numbers: Numbers) -> Rows | None:
    """Read all messages at once; None if one is unusual and they must be read one by one."""
    if not values or None in values:
        return None
    text = b"\n".join(values)  # pyright: ignore[reportArgumentType, reportCallIssue] - none is None
    # If a message has line breaks, lines and messages are not the same.
    if text.count(b"\n") != len(values) - 1 or b"\0" in text or not (text.isascii() or _decodes(text)):
        return None
    limit = stream.max_line_bytes
    if len(text) > limit and max(map(len, values)) > limit:  # pyright: ignore[reportArgumentType]
        return None
    table = read_objects(schema, text, len(values))
    return None if table is None else Rows(table, numbers, lambda position: _shown(values[position]))


def _read_one_by_one(
    stream: Stream, schema: pa.Schema, values: Sequence[bytes | None], numbers: Numbers, faults: Mapping[int, str]
) -> Rows:
    """Check each message, and read those without a fault."""
    reasons = [faults.get(at) or _reason(value, stream.max_line_bytes) for at, value in enumerate(values)]
    rejects, good = _parted(values, numbers, reasons)
    taken = [value for at in good.tolist() if (value := values[at]) is not None]
    rows = read_values(schema, taken, numbers[good], stream.missing)
    return replace(rows, rejects=[*rows.rejects, *rejects])


def _decodes(text: bytes) -> bool:
    # The line breaks between messages keep halves of a character in two messages from passing as one.
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _reason(value: bytes | None, limit: int) -> str | None:
    if value is None:
        return "the message has no value (a tombstone)"
    if len(value) > limit:
        return f"the message has {len(value):,} bytes, more than its stream's limit of {limit:,}"
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
