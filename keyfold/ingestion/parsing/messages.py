"""Messages to validated rows: JSON objects, one a message, by the rules of a file's lines.

What would have a file rejected as a whole (it is binary, not UTF-8, too long) rejects one message: others have nothing to
do with it. A message that is blank, or has no value, is rejected too: each one is a row, and all are accounted for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import compress

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from keyfold.ingestion.parsing.exploding import exploded
from keyfold.ingestion.parsing.json_lines import read_objects, read_values
from keyfold.ingestion.parsing.routing import Keys, Routes, mask, read_keys, rejected, text_of
from keyfold.ingestion.parsing.rows import Reject, Rows, ValidatedRows, none_accepted, validate_rows
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
    """Parse messages, wherever they came from.

    Args:
        stream: what they should be.
        values: the raw objects; None where a message has none.
        numbers: the number of each, which grows, for its row's `lines`.
        arrived: when they came (UTC): all at once, or each for itself.
        beside: raw columns that are not of the value, a row a message; the value's own of these names are left out.
        faults: by position, what is wrong with a message but for its value.
        path: the value of columns that the stream takes from the path.
        oldest: the least event time that is accepted; None where any is.
    """
    own = {} if beside is None else {name: beside.column(name) for name in beside.column_names}
    schema = pa.schema([field for field in stream.raw_schema if field.name not in own])
    rows = None if faults else _read_at_once(stream, schema, values, numbers)
    if rows is None:
        rows = _read_with_care(stream, schema, values, numbers, faults or {})
    # Numbers grow: where a row's stands is where its message is.
    columns, at = rows.columns, np.searchsorted(numbers, rows.lines)
    for name, column in own.items():
        columns = columns.append_column(name, column.take(pa.array(at)))
    parts = []
    for part in exploded(stream, replace(rows, columns=columns)):
        at = np.searchsorted(numbers, part.lines)
        arrivals = arrived if isinstance(arrived, datetime) else arrived.gather(at)
        parts.append(validate_rows(stream, part, arrivals, path, oldest))
    return parts[0] if len(parts) == 1 else _together(parts)


def parse_shared_messages(
    streams: Sequence[Stream],
    wanted: Mapping[str, datetime | None],
    values: Sequence[bytes | None],
    numbers: Numbers,
    arrived: datetime | pl.Series,
    *,
    beside: pa.Table,
    faults: Mapping[int, str],
    path: str | None = None,
) -> Iterator[tuple[str, ValidatedRows]]:
    """Parse messages of a topic that streams share; gives rows with the name of their stream.

    A message whose value cannot be read belongs to the first stream, unless conditions look only at what is beside it.

    Args:
        streams: those that share it, its own first: messages of no stream are its rejects.
        wanted: the streams whose rows are given, each with the least event time that is accepted.
        values, numbers, arrived, beside, faults, path: as of `parse_messages`.
    """
    routes, owner = Routes(streams), streams[0]
    keys = _keys(routes, owner.max_line_bytes, values, numbers, beside)
    chosen, reason = routes.choose(keys.texts)
    nobodys = [
        Reject(_shown(values[keys.at[row]]), int(numbers[keys.at[row]]), reason(row))
        for row in np.flatnonzero(chosen < 0).tolist()
    ]
    if owner.name in wanted:
        yield owner.name, none_accepted(owner, rejected([*keys.rejects, *nobodys]))
    for place, stream in enumerate(streams):
        own = mask(len(values), keys.at[chosen == place])
        if stream.name not in wanted or not own.any():
            continue
        positions = np.flatnonzero(own)
        asked = [name for name in stream.raw_schema.names if name in beside.column_names]
        yield (
            stream.name,
            parse_messages(
                stream,
                list(compress(values, own.tolist())),
                numbers[own],
                arrived if isinstance(arrived, datetime) else arrived.gather(positions),
                beside=beside.select(asked).take(pa.array(positions)),
                faults={int(np.searchsorted(positions, at)): why for at, why in faults.items() if own[at]},
                path=path,
                oldest=wanted[stream.name],
            ),
        )


def _keys(routes: Routes, limit: int, values: Sequence[bytes | None], numbers: Numbers, beside: pa.Table) -> Keys:
    """What conditions look at, in messages and beside their values."""
    inside = [name for name in routes.columns if name not in beside.column_names]
    keys = Keys(pl.DataFrame(), np.arange(len(values)))
    if inside:
        reasons = [_reason(value, limit) for value in values]
        rejects = [
            Reject(_shown(value), int(number), reason)
            for value, number, reason in zip(values, numbers, reasons, strict=True)
            if reason
        ]
        good = np.array([at for at, reason in enumerate(reasons) if not reason], np.int64)
        found = read_keys(inside, [value for at in good.tolist() if (value := values[at]) is not None], numbers[good])
        keys = Keys(found.texts, good[found.at], [*rejects, *found.rejects])
    outside = {name: text_of(beside, name).gather(keys.at) for name in routes.columns if name in beside.column_names}
    return replace(keys, texts=pl.DataFrame({**keys.texts.to_dict(), **outside}))


def _together(parts: Sequence[ValidatedRows]) -> ValidatedRows:
    return ValidatedRows(
        read=sum(part.read for part in parts),
        accepted=pl.concat([part.accepted for part in parts]),
        lines=np.concatenate([part.lines for part in parts]),
        rejects=[reject for part in parts for reject in part.rejects],
        untimed=sum(part.untimed for part in parts),
    )


def _read_at_once(stream: Stream, schema: pa.Schema, values: Sequence[bytes | None], numbers: Numbers) -> Rows | None:
    """The rows of messages of which none needs a look; None where one does, as is seldom."""
    if not values or None in values:
        return None
    text = b"\n".join(values)  # pyright: ignore[reportArgumentType, reportCallIssue] - none is None
    # Where a message has lines of its own, objects and messages need not be the same.
    if text.count(b"\n") != len(values) - 1 or b"\0" in text or not (text.isascii() or _decodes(text)):
        return None
    if len(text) > stream.max_line_bytes and max(map(len, values)) > stream.max_line_bytes:  # pyright: ignore[reportArgumentType]
        return None
    table = read_objects(schema, text, len(values))
    return None if table is None else Rows(table, numbers, lambda position: _shown(values[position]))


def _read_with_care(
    stream: Stream, schema: pa.Schema, values: Sequence[bytes | None], numbers: Numbers, faults: Mapping[int, str]
) -> Rows:
    """The rows of messages, each looked at first."""
    reasons = [faults.get(at) or _reason(value, stream.max_line_bytes) for at, value in enumerate(values)]
    rejects = [
        Reject(_shown(value), int(number), reason)
        for value, number, reason in zip(values, numbers, reasons, strict=True)
        if reason
    ]
    good = [at for at, reason in enumerate(reasons) if not reason]
    taken = [value for at in good if (value := values[at]) is not None]
    rows = read_values(schema, taken, numbers[good] if good else numbers[:0], stream.missing)
    return replace(rows, rejects=[*rows.rejects, *rejects])


def _decodes(text: bytes) -> bool:
    # Line ends lie between messages: the halves of a character in two of them do not make one.
    try:
        text.decode()
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
