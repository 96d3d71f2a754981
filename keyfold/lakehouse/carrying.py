"""Copy all rows of a Delta table to a new one by linking its data files: no row is read or written."""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from keyfold.errors import IncompatibleState
from keyfold.lakehouse.commits import statistics_of
from keyfold.lakehouse.files import second_name, sync_folder
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place


def carry_rows(source: Place, target: Place) -> int:
    """Add all rows of a table to an empty one, and return their number.

    Each table has its own log: later changes of one do not affect the other. A file stays on disk as long as either
    table has a link to it.

    Args:
        source: an existing Delta table.
        target: an empty Delta table on the same disk, with at least the columns of the source.

    Raises:
        KeyfoldError: the target lacks a column of the source, or has another type for it; nothing was changed.
    """
    delta, into = DeltaTable(str(source)), DeltaTable(str(target))
    _check_fits(delta, into, source)
    listed = delta.get_add_actions(flatten=True)
    columns = {name: listed[name].to_pylist() for name in listed.schema.names}
    now, actions, rows = time.time_ns() // 1_000_000, [], 0
    for at, quoted in enumerate(columns["path"]):
        path = unquote(quoted)
        # A hard link on a disk, a copy in a bucket: a file that one table deletes stays in the other.
        second_name(source / path, target / path)
        spans = {end: _spans(columns, end, at) for end in ("min", "max")}
        count = int(columns["num_records"][at])
        statistics = statistics_of(count, spans["min"], spans["max"])
        actions.append(AddAction(path, columns["size_bytes"][at], {}, now, True, statistics))
        rows += count
    # A set: files of one folder need a single sync.
    for folder in {(target / unquote(path)).parent for path in columns["path"]}:
        # Sync before the commit: the files that it names must survive a power cut.
        sync_folder(folder)
    if actions:
        check_held()
        into.create_write_transaction(actions, mode="append", schema=into.schema())
        sync_folder(target / "_delta_log")
    return rows


def _check_fits(delta: DeltaTable, into: DeltaTable, source: Place) -> None:
    new: Any = pa.schema(into.schema().to_arrow())
    for field in pa.schema(delta.schema().to_arrow()):  # type: ignore[arg-type]
        if field.name not in new.names or new.field(field.name).type != field.type:
            here = new.field(field.name).type if field.name in new.names else "missing"
            raise IncompatibleState(
                f"the rows of {source} do not fit the new table: column {field.name} is {field.type}, and {here} in the new "
                "table; let the job read its events again, with --full-refresh"
            )


def _spans(columns: Mapping[str, Any], end: str, at: int) -> dict[str, str]:
    """Return the minimum or maximum of each column of times of a file, as ISO 8601 in UTC."""
    return {
        name.removeprefix(f"{end}."): value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for name in columns
        if name.startswith(f"{end}.") and hasattr(value := columns[name][at], "strftime")
    }
