"""Check the declaration of a stream when it is made, and not when the first file is read."""

from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.errors import Misconfigured
from keyfold.schemas import check_condition, check_name
from keyfold.stream.file_format import FileFormat
from keyfold.stream.source import EACH, INGESTED_AT, ISO, TIME_UNITS, TIMESTAMP, Source, name_of, path_of

if TYPE_CHECKING:
    from keyfold.stream.stream import Stream


def check_stream(stream: "Stream") -> None:
    """Check what a stream declares.

    Raises:
        Misconfigured: a setting names a column that the schema does not have, a type cannot be read, or two settings exclude
            each other.
    """
    check_name(f"stream {stream.name}", stream.name)
    if not isinstance(stream.format, FileFormat):
        raise Misconfigured(f"stream {stream.name}: format is {stream.format!r}; give FileFormat(delimiter=';', …)")
    _check_types(stream)
    if INGESTED_AT in stream.schema.names:
        raise Misconfigured(
            f"stream {stream.name}: its schema has a column {INGESTED_AT}, a name that Keyfold needs for the time at which "
            f"events arrive; call it otherwise, such as `received_at`, with sources={{'received_at': "
            f"Source(('{INGESTED_AT}',))}}"
        )
    named = {
        "event_time": () if stream.event_time == INGESTED_AT else (stream.event_time,),
        "event_id": stream.event_id,
        "sources": tuple(stream.sources),
        "private": stream.private,
    }
    for what, columns in named.items():
        if strangers := [column for column in columns if column not in stream.schema.names]:
            raise Misconfigured(
                f"stream {stream.name}: {what} names {', '.join(strangers)}, which its schema does not have; it has "
                f"{', '.join(stream.schema.names)}"
            )
    if stream.missing_time == "arrival" and stream.event_time == INGESTED_AT:
        raise Misconfigured(
            f"stream {stream.name}: its event time is the arrival, which no message lacks: leave missing_time out"
        )
    if stream.missing_time == "arrival" and stream.event_time in stream.event_id:
        raise Misconfigured(
            f"stream {stream.name}: event_id names {stream.event_time}, and missing_time lets the arrival stand in for it: two "
            "messages without a time that arrive together would be copies; leave it out of event_id, or leave event_id "
            "empty to keep all"
        )
    _check_age(stream)
    for name, source in stream.sources.items():
        if source.time and (stream.schema.field(name).type != TIMESTAMP or not all(map(_is_time_format, source.time))):
            raise Misconfigured(
                f"stream {stream.name}: the source of {name} says that its times are written as "
                f"{', '.join(map(repr, source.time))}; that is for a column of type {TIMESTAMP}, and one of "
                f"{', '.join((*TIME_UNITS, ISO))} or a format such as %d/%m/%Y %H:%M"
            )
        if len(units := [unit for unit in source.time if unit in TIME_UNITS]) > 1:
            raise Misconfigured(
                f"stream {stream.name}: the source of {name} has numbers that count {' and '.join(units)} from 1970, and no number "
                "tells which; name one unit"
            )
    _check_paths(stream)


def _is_time_format(name: str) -> bool:
    return name in (*TIME_UNITS, ISO) or "%" in name


def _check_age(stream: "Stream") -> None:
    """Check that current events can never be older than `max_age`.

    Raises:
        Misconfigured: they can.
    """
    age = stream.max_age
    if age is None:
        return
    if age <= timedelta(0) or age < stream.future_bound:
        raise Misconfigured(
            f"stream {stream.name}: max_age is {age}, and future_bound {stream.future_bound}: one event from that far ahead "
            "would make all events of now too old; give a longer max_age, or a shorter future_bound"
        )
    if stream.missing_time == "arrival":
        raise Misconfigured(
            f"stream {stream.name}: max_age is measured from the newest event time, and missing_time lets the arrival stand in "
            "for it: older events would then be too old; leave one of them out"
        )


def _check_paths(stream: "Stream") -> None:
    """Check the sources that read nested data.

    Raises:
        Misconfigured: a source is invalid, or sources do not go together.
    """
    where = f"stream {stream.name}"
    try:
        elements = stream.list_path
    except ValueError as error:
        raise Misconfigured(f"{where}: {error}; the elements of one list alone become events") from None
    placed = {name for name, source in stream.sources.items() if source.place}
    as_json = {name: source for name, source in stream.sources.items() if source.json}
    for name in (*placed, *as_json):
        source, wanted = stream.sources[name], pa.int64() if name in placed else pa.string()
        what = "place" if name in placed else "json"
        if stream.schema.field(name).type != wanted or source.time or (source.place and (source.json or source.names)):
            raise Misconfigured(
                f"{where}: the source of {name} has {what}=True, which is for a column of type {wanted}"
            )
    if placed and elements is None:
        raise Misconfigured(
            f"{where}: the source of {', '.join(sorted(placed))} has place=True, and no other leads into the elements of a "
            "list, such as Source('readings[].value')"
        )
    for name, source in as_json.items():
        if strange := [one for one in source.names if not all(isinstance(step, str) for step in path_of(one))]:
            raise Misconfigured(
                f"{where}: the source of {name} has json=True, which keeps what keys of objects lead to, and "
                f"{', '.join(strange)} leads into a list"
            )
        # The text of an object contains the values below it, and so those of private columns.
        tops = [path_of(one) for one in source.names] or [()]
        inside = [
            column
            for column in stream.private
            if any(path_of(one)[: len(top)] == top for one in stream.source(column).names for top in tops)
        ]
        if inside and name not in stream.private:
            raise Misconfigured(
                f"{where}: {name} keeps the text that the private {', '.join(inside)} is taken from; name it in private too"
            )
    ids = [stream.source(name) for name in stream.event_id]
    if elements is not None and ids and not any(_tells_elements_apart(one) for one in ids):
        raise Misconfigured(
            f"{where}: event_id has no column of the elements of {name_of(elements)}, so that all elements of a list would be "
            "copies; add a column of the element, or its place: Source(place=True)"
        )


def _tells_elements_apart(source: Source) -> bool:
    return source.place or any(EACH in path_of(name) for name in source.names)


def _check_types(stream: "Stream") -> None:
    where = f"stream {stream.name}"
    for field in stream.schema:
        if not _is_readable(field.type):
            raise Misconfigured(
                f"{where}: {field.name} is {field.type}, which ingest cannot read; take text, numbers, decimals, true or false, "
                f"times ({TIMESTAMP}), dates (date32), or lists or objects of them"
            )
        if field.name == stream.event_time and field.type != TIMESTAMP:
            raise Misconfigured(f"{where}: event_time {field.name} is {field.type}; it must be {TIMESTAMP}")
    for name, source in stream.sources.items():
        if not isinstance(source, Source):
            raise Misconfigured(f"{where}: the source of {name} is {source!r}; give a Source, such as Source('{name}')")
    for rule in stream.rules:
        if not isinstance(getattr(rule, "broken", None), pl.Expr):
            raise Misconfigured(f"{where}: {rule!r} is no rule; give Rule('amount is negative', pl.col('amount') < 0)")
        check_condition(f"{where}: rule {rule.reason!r}", rule.broken, stream.schema)


def _is_readable(kind: pa.DataType) -> bool:
    if types.is_struct(kind):
        return all(_is_readable(one.type) for one in kind)
    if types.is_list(kind):
        return _is_readable(kind.value_type)
    return kind in (TIMESTAMP, pa.date32()) or any(is_kind(kind) for is_kind in _READ)


_READ = (
    types.is_string, types.is_boolean, types.is_signed_integer, types.is_float32, types.is_float64, types.is_decimal128,
)  # fmt: skip
