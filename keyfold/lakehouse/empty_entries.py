"""Entries of a Delta log that are empty: whoever reads the table takes one for a commit that did nothing, and misses rows.

A disk that lost power amid a commit may leave its entry so, as the last; any other was put there by somebody, or by a
file system that has failed.
"""

import json

from keyfold.errors import KeyfoldError
from keyfold.lakehouse.files import sync_folder
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place


def empty_entries(table: Place, version: int) -> list[int]:
    """Versions of a Delta table, up to one, whose log entries are empty, in order.

    Those that the newest checkpoint holds do not count, nor are they looked at: a log may have many thousand.
    """
    log = table / "_delta_log"
    later = range(_checkpoint(log) + 1, version + 1)
    return [entry for entry in later if _is_empty(log / f"{entry:020d}.json")]


def check_no_entry_is_empty(table: Place, version: int) -> None:
    """See that a table's log tells all that it should, up to a version.

    Raises:
        KeyfoldError: an entry is empty.
    """
    for entry in empty_entries(table, version):
        raise told_of(table, entry)


def told_of(table: Place, version: int) -> KeyfoldError:
    """What to say of an empty entry to who reads the table."""
    return KeyfoldError(
        f"the log of {table} is damaged: entry {version} is empty, so that what it said is missing from the table; restore "
        "it. Of a table of Keyfold, its next ingest or run says what else can be done"
    )


def take_back(table: Place, version: int) -> None:
    """Remove the last entry, which is empty: a commit that a loss of power broke off."""
    check_held()
    log = table / "_delta_log"
    (log / f"{version:020d}.json").unlink()
    sync_folder(log)


def _checkpoint(log: Place) -> int:
    """The version of the newest checkpoint, -1 before the first."""
    try:
        return int(json.loads((log / "_last_checkpoint").read_text(encoding="utf-8"))["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return -1


def _is_empty(entry: Place) -> bool:
    try:
        return entry.stat().st_size == 0
    except FileNotFoundError:
        return False
