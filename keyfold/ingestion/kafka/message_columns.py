"""The raw columns of messages that come from outside of their values: topic, offset, key, headers, and others."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keyfold.ingestion.kafka.decoded import Decoded, fault

if TYPE_CHECKING:
    from confluent_kafka import Message

KEY = "kafka_key"
TIMESTAMP = "kafka_timestamp"
TOMBSTONE = "kafka_tombstone"

_MILLIS = pa.timestamp("ms", tz="UTC")
_HEADER = "kafka_header."


def message_columns(raw_columns: Sequence[str]) -> tuple[str, ...]:
    """Return the raw columns of a stream that come from outside of a message's value.

    `kafka_topic`, `kafka_partition`, `kafka_offset`, `kafka_timestamp` (set by producer or broker), `kafka_key` and
    `kafka_header.NAME` (UTF-8 text; the last header of that name), `kafka_headers` (all, as a JSON list of pairs),
    `kafka_tombstone` (whether the message has no value; then it is an event all the same).
    """
    names = {"kafka_topic", "kafka_partition", "kafka_offset", TIMESTAMP, KEY, "kafka_headers", TOMBSTONE}
    return tuple(name for name in dict.fromkeys(raw_columns) if name in names or name.startswith(_HEADER))


def raw_columns(
    names: Sequence[str],
    messages: "Sequence[Message]",
    keys: Sequence[bytes | str | None],
    times: Sequence[int],
    faults: dict[int, str],
) -> pa.Table:
    """Return columns of messages.

    Args:
        names: the columns, of `message_columns`.
        messages: the messages, which are of one partition.
        keys: the texts of their keys, if the key is one of the columns.
        times: their times in milliseconds, if the time is one of the columns; negative without one.
        faults: faults of messages, by position; those of these columns are added.
    """
    columns: dict[str, Any] = {}
    for name in names:
        match name:
            case "kafka_topic":
                columns[name] = pa.repeat(pa.scalar(messages[0].topic()), len(messages))
            case "kafka_partition":
                columns[name] = pa.repeat(pa.scalar(messages[0].partition(), pa.int64()), len(messages))
            case "kafka_offset":
                columns[name] = pa.array([message.offset() for message in messages], pa.int64())
            case "kafka_timestamp":
                columns[name] = pa.array([None if at < 0 else at for at in times], _MILLIS)
            case "kafka_tombstone":
                columns[name] = pa.array([message.value() is None for message in messages])
            case "kafka_key":
                columns[name] = _texts(name, keys, faults)
            case "kafka_headers":
                columns[name] = _texts(name, [_all_headers(message) for message in messages], faults)
            case _:
                wanted = name.removeprefix(_HEADER)
                columns[name] = _texts(name, [_header(message, wanted) for message in messages], faults)
    return pa.table(columns)


def key_texts(
    keys: Sequence[bytes | str | None], decoded: Sequence[Decoded], faults: dict[int, str]
) -> Sequence[bytes | str | None]:
    """Return the texts of decoded keys, and add the faults of those that have none."""
    texts: list[bytes | str | None] = []
    for at, (key, content) in enumerate(zip(keys, decoded, strict=True)):
        # A key that is a text is that text, and not JSON's form of it.
        is_text = content.text is not None and content.text is not key and content.text[:1] == b'"'
        text, reason = _unquoted(content.text or b"") if is_text else content
        if reason:
            faults.setdefault(at, f"{KEY}: {reason}")
        texts.append(text)
    return texts


def _unquoted(text: bytes) -> Decoded:
    try:
        return Decoded(json.loads(text).encode())
    except UnicodeEncodeError:
        return fault("it has half of a surrogate pair")
    except ValueError as error:
        return fault(f"not valid JSON: {error}")


def _header(message: "Message", name: str) -> bytes | str | None:
    return next((value for key, value in reversed(message.headers() or []) if key == name), None)


def _all_headers(message: "Message") -> bytes | None:
    headers = message.headers()
    if not headers:
        return None
    pairs = [
        [name, value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value]
        for name, value in headers
    ]
    return json.dumps(pairs, ensure_ascii=False).encode()


def _texts(name: str, values: Sequence[bytes | str | None], faults: dict[int, str]) -> pa.Array:
    texts: list[str | None] = []
    for position, value in enumerate(values):
        try:
            texts.append(value.decode() if isinstance(value, bytes) else value)
        except UnicodeDecodeError as error:
            texts.append(None)
            faults.setdefault(position, f"{name} is not UTF-8: {error.reason} at byte {error.start}")
    return pa.array(texts, pa.string())
