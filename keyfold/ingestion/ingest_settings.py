"""The birth record of a stream's ingest, and whether what is there still fits it.

FOLDER/ingest.json   the name of this ingest in its tables' logs, Delta's ids of the tables, and what must not change
"""

import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from keyfold.columns import column
from keyfold.errors import Damaged, IncompatibleState
from keyfold.ingestion.event_ids import ENCODING
from keyfold.lakehouse import Lakehouse, create_table, is_table, read_json, write_json
from keyfold.lakehouse.tables import table_id, table_schema
from keyfold.storage.place import Place
from keyfold.stream import Stream

QUARANTINE = pa.schema(
    [
        column("raw", pa.string(), "The line as it stood in the file; NULL where the whole file was rejected"),
        column("file", pa.string(), "The file; of a message of Kafka, kafka://TOPIC/PARTITION"),
        column(
            "line",
            pa.int64(),
            "Number of the line, from 1; NULL where the whole file was rejected; of a message, its offset",
        ),
        column("reason", pa.string(), "What is wrong with it"),
        column("batch", pa.int64(), "Micro-batch of ingest that rejected it"),
        column("header", pa.string(), "Of CSV, the header of its file, by which the line's fields have names"),
    ]
)

RECORD = "ingest.json"
REBUILD = "rebuild.json"
"""The record of a rebuild that has begun; see `rebuild`."""

_FORMAT = 1


@dataclass(frozen=True)
class Birth:
    """A stream's ingest.

    Attributes:
        folder: where its journal, its index of ids and its known files are.
        tables: the folders of the tables it writes, `events` and `quarantine`.
        identity: its name in their logs.
        ids: what Delta knew the tables by when it began.
        fixed: what must not change.
        where: what to call it in errors.
        remedy: how to start over.
    """

    folder: Place
    tables: dict[str, Place]
    identity: str
    ids: dict[str, str]
    fixed: dict[str, Any]
    where: str
    remedy: str

    @property
    def journal(self) -> Place:
        return self.folder / "journal"

    @property
    def checksummed(self) -> dict[str, Place]:
        """The files and folders whose checksums the journal keeps, by name."""
        parts = {name: self.folder / name for name in (RECORD, "journal", "files")}
        return parts | {f"tables/{name}": table / "_delta_log" for name, table in self.tables.items()}

    @property
    def segments(self) -> Place:
        return self.folder / "ids"


def open_ingest(lakehouse: Lakehouse, stream: Stream) -> Birth:
    """The ingest of a stream, begun if there is none; call it under the lock of its folder.

    Raises:
        KeyfoldError: it is of another version of Keyfold, or the stream does not fit it.
    """
    there = existing_ingest(lakehouse, stream.name)
    if there is None:
        _begin(lakehouse, stream)
        there = existing_ingest(lakehouse, stream.name)
        assert there is not None  # noqa: S101 - it was just written; this tells the type checker so
    _check_unchanged(stream, there)
    return there


def existing_ingest(lakehouse: Lakehouse, stream: str) -> Birth | None:
    """The ingest of a stream, None where it has not begun; needs no lock.

    Raises:
        KeyfoldError: it is of another version of Keyfold.
    """
    folder = lakehouse.ingest(stream)
    record = folder / RECORD
    if not record.exists():
        return None
    where, remedy = _where(stream), rebuild_remedy(lakehouse, stream)
    born = read_json(record, remedy)
    if born["format"] != _FORMAT:
        raise IncompatibleState(
            f"{where}: {folder} is of another version of Keyfold (format {born['format']}); {remedy}"
        )
    return Birth(folder, _tables(lakehouse, stream), born["identity"], born["tables"], born["fixed"], where, remedy)


def fit_events(stream: Stream, birth: Birth, table: DeltaTable) -> None:
    """Widen the event table by columns of the stream that are new and may be NULL.

    Raises:
        KeyfoldError: table and stream differ in any other way.
    """
    path = birth.tables["events"]
    wanted = {field.name: field for field in table_schema(stream.event_schema).fields}
    found = {field.name: field.type for field in table.schema().fields}
    new = [name for name in wanted if name not in found]
    faults = [
        f"{name} is {found[name]} in the table" for name in found if name in wanted and found[name] != wanted[name].type
    ]
    faults += [f"{name} is in the table alone" for name in found if name not in wanted]
    faults += [f"{name} is new and must be there" for name in new if not stream.event_schema.field(name).nullable]
    if faults:
        raise IncompatibleState(
            f"{path} and its stream {stream.name} differ: {'; '.join(faults)}; make the stream's columns fit the table's "
            f"(a new column that may be NULL is added by itself), or {birth.remedy}"
        )
    if new:
        table.alter.add_columns([wanted[name] for name in new])


def _where(stream: str) -> str:
    return f"ingest of {stream}"


def rebuild_remedy(lakehouse: Lakehouse, stream: str) -> str:
    """How a person starts a stream over."""
    return (
        f"start over: `{lakehouse.command('ingest', stream, '--rebuild')}` moves its tables and "
        f"{lakehouse.ingest(stream)} aside and reads its landing files again"
    )


def _tables(lakehouse: Lakehouse, stream: str) -> dict[str, Place]:
    return {"events": lakehouse.events(stream), "quarantine": lakehouse.quarantine(stream)}


def _begin(lakehouse: Lakehouse, stream: Stream) -> None:
    folder, tables = lakehouse.ingest(stream.name), _tables(lakehouse, stream.name)
    where, remedy = _where(stream.name), rebuild_remedy(lakehouse, stream.name)
    for name, path in tables.items():
        # Rows without a record would be read a second time: an empty table is what a killed beginning leaves.
        if is_table(path) and DeltaTable(str(path)).count():
            raise Damaged(
                f"{where}: the table {name} in {path} has rows, but which files they came from is not known: {folder} "
                f"holds no record; restore that folder, or {remedy}"
            )
    # The tables first: the record, written last, names their ids; what breaks off before it begins anew.
    create_table(tables["events"], stream.event_schema, is_read_by_version=True)
    create_table(tables["quarantine"], QUARANTINE)
    write_json(
        folder / RECORD,
        {
            "format": _FORMAT,
            "identity": str(uuid.uuid4()),
            "tables": {name: table_id(path) for name, path in tables.items()},
            "fixed": _fixed(stream),
        },
    )


def _fixed(stream: Stream) -> dict[str, Any]:
    """What must not change while an ingest lives: what ids and times mean."""
    types = {field.name: str(field.type) for field in stream.schema}
    return {
        "event_id": [[name, types[name]] for name in stream.event_id],
        "event_time": stream.event_time,
        "fingerprints": ENCODING if stream.event_id else "",
    }


def _check_unchanged(stream: Stream, birth: Birth) -> None:
    for name, now in _fixed(stream).items():
        if birth.fixed[name] != now:
            raise IncompatibleState(
                f"{birth.where} began with {name} {birth.fixed[name]} and now has {now}; set it back, or {birth.remedy}"
            )
