"""Events with the id of another one and other content: they go to quarantine, with both values.

Their raw lines are gone by then. In quarantine they have their values, by the names of raw columns, in the format of their file.
"""

import csv
import io
import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl

from keyfold.ingestion.duplicates import Numbers, content_columns
from keyfold.ingestion.kafka.kafka_settings import PREFIX
from keyfold.ingestion.parsing.casting import SHOWN
from keyfold.ingestion.parsing.text import file_type
from keyfold.lakehouse.log_changes import snapshot
from keyfold.lakehouse.reading import read_parquet
from keyfold.storage.place import Place, to_place
from keyfold.stream import Stream
from keyfold.stream.source import PLACE, TEXT_OF
from keyfold.times import to_iso, to_micros

_LOOKED_UP = 100
"""Most conflicts of a worker for which the event table is read."""
_FILES = 8
"""Most data files that are read for them."""

Event = dict[str, Any]


def conflict_reason(stream: Stream, new: Event, old: Event | None) -> str:
    """Say how an event differs from the one with its id; `old` is None if that was not looked up."""
    begin = (
        "an event with this id is there, with other content; if this one is right, "
        f"`keyfold correct {stream.name} --from FILE` replaces it"
    )
    if old is None:
        return f"{begin}: their digests differ"
    names = [name for name in content_columns(stream) if _differ(new[name], old[name])]
    return f"{begin}: " + "; ".join(
        f"{name} differs" if name in stream.private else f"{name} is {_shown(new[name])} and was {_shown(old[name])}"
        for name in names
    )


def as_raw(stream: Stream, event: Event, file: str | None = None) -> tuple[str, str | None]:
    """Return the values of an event as the raw text of a row, and the header if its file is CSV; JSON without a file."""
    values: Event = {}
    for name in stream.schema.names:
        for raw_name in stream.source(name).raw_names[:1]:
            if raw_name == TEXT_OF:
                return event[name] or "", None
            if raw_name != PLACE and event[name] is not None:
                values[raw_name.removesuffix(TEXT_OF)] = event[name]
    if file is None or file.startswith(PREFIX) or file_type(to_place(file)).format != "csv":
        return json.dumps(values, ensure_ascii=False, default=_text), None
    lines = io.StringIO()
    fields = [_field(value, stream.format.decimal) for value in values.values()]
    csv.writer(lines, delimiter=stream.format.delimiter, lineterminator="\n").writerows([values.keys(), fields])
    header, _, row = lines.getvalue().removesuffix("\n").partition("\n")
    return row, header


def look_up(stream: Stream, events: Place, rows: pl.DataFrame, times: Numbers) -> list[Event | None]:
    """Find the events of the event table with the ids of some rows, whose times are known; None for those not found cheaply."""
    events_of_rows: list[Event | None] = [None] * rows.height
    if not rows.height or rows.height > _LOOKED_UP:
        return events_of_rows
    files = [
        file
        for file in snapshot(events, stream.event_time).files
        if file.first is None or file.last is None or ((times >= file.first) & (times <= file.last)).any()
    ]
    if len(files) > _FILES:
        return events_of_rows
    wanted = rows.select(stream.event_id).with_row_index("\0row").with_columns(pl.Series("\0time", times))
    for file in files:
        old = read_parquet(events / file.path)
        old = old.with_columns(pl.Series("\0time", to_micros(old[stream.event_time])))
        both = wanted.join(old, [*stream.event_id, "\0time"], "inner", nulls_equal=True)
        for event in both.to_dicts():
            # An older file lacks columns that are new.
            events_of_rows[event["\0row"]] = dict.fromkeys(rows.columns) | event
    return events_of_rows


def _differ(left: object, right: object) -> bool:
    return repr(left) != repr(right) and left != right


def _shown(value: object) -> str:
    return "NULL" if value is None else json.dumps(value, ensure_ascii=False, default=_text)[:SHOWN]


def _field(value: Any, decimal: str) -> str:
    return _text(value).replace(".", decimal) if isinstance(value, float | Decimal) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return to_iso(value) if isinstance(value, datetime) else "" if value is None else str(value)
