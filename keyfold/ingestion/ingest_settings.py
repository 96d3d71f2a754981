"""The settings of a stream's ingest in its record, and the check that stream and tables still fit it.

FOLDER/ingest.json   the identity of this ingest in its tables' logs, Delta's ids of the tables, immutable settings
"""

import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from keyfold.columns import column
from keyfold.errors import Damaged, IncompatibleState
from keyfold.ingestion.duplicates import ENCODING
from keyfold.lakehouse import Lakehouse, create_table, is_table
from keyfold.lakehouse.paths import table_schema
from keyfold.storage.place import Place
from keyfold.stream import Stream

QUARANTINE = pa.schema(
    [
        column(
            "raw",
            pa.string(),
            "The unchanged line, or the values of an event whose id is another one's, or that was taken out later; if the "
            "whole file was rejected, its first refused lines, or NULL",
        ),
        column(
            "file",
            pa.string(),
            "The file, or kafka://TOPIC/PARTITION of a Kafka message; NULL of an event that was taken out later",
        ),
        column(
            "line",
            pa.int64(),
            "Line number, from 1, or the offset of a Kafka message; NULL if the whole file was rejected, or an event was taken out later",
        ),
        column("reason", pa.string(), "Why the line or file was rejected"),
        column(
            "batch", pa.int64(), "Micro-batch of ingest that rejected it; NULL of an event that was taken out later"
        ),
        column("header", pa.string(), "Header of a CSV file, which names the line's fields"),
    ]
)

RECORD = "ingest.json"
REBUILD = "rebuild.json"
"""The record of an unfinished rebuild; see `rebuild`."""

_FORMAT = 2
"""Since format 2, plans and commit records have a digest."""


@dataclass(frozen=True)
class IngestSettings:
    """The settings that a stream's ingest began with.

    Attributes:
        folder: the folder of its journal, its index of event ids and its known files.
        tables: the folders of its tables, `events` and `quarantine`.
        identity: its name in the transactions of the tables.
        ids: Delta's ids of the tables.
        immutable: settings of the stream that must not change.
        label: a name for the ingest, for error messages.
        remedy: how to start over, for error messages.
    """

    folder: Place
    tables: dict[str, Place]
    identity: str
    ids: dict[str, str]
    immutable: dict[str, Any]
    label: str
    remedy: str

    @property
    def journal(self) -> Place:
        return self.folder / "journal"

    @property
    def segments(self) -> Place:
        return self.folder / "ids"


def open_ingest(lakehouse: Lakehouse, stream: Stream) -> IngestSettings:
    """Open the ingest of a stream, or begin it. Call it under the lock of its folder.

    Raises:
        KeyfoldError: another version of Keyfold wrote it, or the stream does not fit it.
    """
    settings = existing_ingest(lakehouse, stream.name)
    if settings is None:
        _begin(lakehouse, stream)
        settings = existing_ingest(lakehouse, stream.name)
        assert settings is not None  # noqa: S101 - it was just written; this tells the type checker so
    _check_unchanged(stream, settings)
    return settings


def existing_ingest(lakehouse: Lakehouse, stream: str) -> IngestSettings | None:
    """Return the ingest of a stream; None if it has not begun. Needs no lock.

    Raises:
        KeyfoldError: another version of Keyfold wrote it.
    """
    folder = lakehouse.ingest(stream)
    record = folder / RECORD
    if not record.exists():
        return None
    label, remedy = _label(stream), rebuild_remedy(lakehouse, stream)
    content = record.read_json(remedy, {"format": int})
    if content["format"] != _FORMAT:
        raise IncompatibleState(
            f"{label}: {folder} is of another version of Keyfold (format {content['format']}); {remedy}"
        )
    content = record.read_json(remedy, {"identity": str, "tables": dict, "fixed": dict})
    return IngestSettings(
        folder, _tables(lakehouse, stream), content["identity"], content["tables"], content["fixed"], label, remedy
    )


def fit_events(stream: Stream, settings: IngestSettings, table: DeltaTable) -> None:
    """Add the stream's new nullable columns to the event table.

    Raises:
        KeyfoldError: table and stream differ in another way.
    """
    path = settings.tables["events"]
    wanted = {field.name: field for field in table_schema(stream.event_schema).fields}
    present = {field.name: field.type for field in table.schema().fields}
    new = [name for name in wanted if name not in present]
    faults = [
        f"{name} is {present[name]} in the table"
        for name in present
        if name in wanted and present[name] != wanted[name].type
    ]
    faults += [f"{name} is only in the table" for name in present if name not in wanted]
    faults += [f"{name} is new and not nullable" for name in new if not stream.event_schema.field(name).nullable]
    if faults:
        raise IncompatibleState(
            f"{path} and its stream {stream.name} differ: {'; '.join(faults)}; make the stream's columns fit the table's "
            f"(new nullable columns are added automatically), or {settings.remedy}"
        )
    if new:
        # Older rows are NULL in these columns; no data file is rewritten.
        table.alter.add_columns([wanted[name] for name in new])


def _label(stream: str) -> str:
    return f"ingest of {stream}"


def rebuild_remedy(lakehouse: Lakehouse, stream: str) -> str:
    """Describe how to start a stream over, for error messages."""
    return (
        f"start over: `{lakehouse.command('ingest', stream, '--rebuild')}` moves its tables and "
        f"{lakehouse.ingest(stream)} aside and reads its landing files again"
    )


def _tables(lakehouse: Lakehouse, stream: str) -> dict[str, Place]:
    return {"events": lakehouse.events(stream), "quarantine": lakehouse.quarantine(stream)}


def _begin(lakehouse: Lakehouse, stream: Stream) -> None:
    folder, tables = lakehouse.ingest(stream.name), _tables(lakehouse, stream.name)
    label, remedy = _label(stream.name), rebuild_remedy(lakehouse, stream.name)
    for name, path in tables.items():
        # Without a record, the files of these rows would be read again. An empty table is fine: a killed start leaves it.
        if is_table(path) and DeltaTable(str(path)).count():
            raise Damaged(
                f"{label}: the table {name} in {path} has rows, but {folder} has no record of the files they came from; "
                f"restore that folder, or {remedy}"
            )
    # The record is written last, since it holds the tables' ids. If this is interrupted before, the next run starts again.
    ids = {
        "events": create_table(tables["events"], stream.event_schema, is_read_by_version=True),
        "quarantine": create_table(tables["quarantine"], QUARANTINE),
    }
    (folder / RECORD).write_json(
        {
            "format": _FORMAT,
            "identity": str(uuid.uuid4()),
            "tables": ids,
            "fixed": _immutable(stream),
        }
    )


def _immutable(stream: Stream) -> dict[str, Any]:
    """Return the settings that must not change during an ingest: the meaning of ids and times. Of zones only one that is not UTC."""
    types = {field.name: str(field.type) for field in stream.schema}
    return {
        "event_id": [[name, types[name]] for name in stream.event_id],
        "event_time": stream.event_time,
        "fingerprints": ENCODING if stream.event_id else "",
        **({} if stream.format.time_zone == "UTC" else {"zone": stream.format.time_zone}),
    }


def _check_unchanged(stream: Stream, settings: IngestSettings) -> None:
    immutable = _immutable(stream)
    for name in {**settings.immutable, **immutable}:
        now = immutable.get(name)
        if settings.immutable.get(name) != now:
            raise IncompatibleState(
                f"{settings.label} began with {name} {settings.immutable.get(name)} and now has {now}; set it back, or {settings.remedy}"
            )
