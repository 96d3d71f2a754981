"""Rows that a new table begins with: another table's files under a second name, none of them read or written again."""

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
    """Have an empty table begin with all rows of another one; gives their number.

    Both keep their own log: what happens to one table after that does not show in the other, and files live as long as
    either names them.

    Args:
        source: an existing Delta table.
        target: an empty one on the same disk, with the columns of the other and perhaps more.

    Raises:
        KeyfoldError: the target lacks a column of the source, or has another type for it; nothing is done.
    """
    delta, into = DeltaTable(str(source)), DeltaTable(str(target))
    _check_fits(delta, into, source)
    found = delta.get_add_actions(flatten=True)
    columns = {name: found[name].to_pylist() for name in found.schema.names}
    now, actions, rows = time.time_ns() // 1_000_000, [], 0
    for at, quoted in enumerate(columns["path"]):
        path = unquote(quoted)
        # A second name and, on a disk, no copy: deleted in one table, the file lives on in the other.
        second_name(source / path, target / path)
        spans = {end: _spans(columns, end, at) for end in ("min", "max")}
        count = int(columns["num_records"][at])
        statistics = statistics_of(count, spans["min"], spans["max"])
        actions.append(AddAction(path, columns["size_bytes"][at], {}, now, True, statistics))
        rows += count
    for folder in {(target / unquote(path)).parent for path in columns["path"]}:
        # Before the commit that names the files: after a power cut it must find them.
        sync_folder(folder)
    if actions:
        check_held()
        into.create_write_transaction(actions, mode="append", schema=into.schema())
        sync_folder(target / "_delta_log")
    return rows


def _check_fits(delta: DeltaTable, into: DeltaTable, source: Place) -> None:
    there: Any = pa.schema(into.schema().to_arrow())
    for field in pa.schema(delta.schema().to_arrow()):  # type: ignore[arg-type]
        if field.name not in there.names or there.field(field.name).type != field.type:
            here = there.field(field.name).type if field.name in there.names else "not there"
            raise IncompatibleState(
                f"rows of {source} cannot be taken over as they are: its column {field.name} is {field.type}, and is "
                f"{here} in the new table; let the job read its events again, with --full-refresh"
            )


def _spans(columns: Mapping[str, Any], end: str, at: int) -> dict[str, str]:
    """The least or the greatest of a file's times, by column, as ISO 8601 in UTC."""
    return {
        name.removeprefix(f"{end}."): value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for name in columns
        if name.startswith(f"{end}.") and hasattr(value := columns[name][at], "strftime")
    }
