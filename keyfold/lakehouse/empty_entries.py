"""Detect empty entries in a Delta log, which a reader takes for a commit without changes, so that rows are missing.

A power cut during a commit may leave its entry empty, as the last one. Any other empty entry comes from a person or a
failed file system.
"""

import json

from keyfold.errors import KeyfoldError
from keyfold.lakehouse.files import sync_folder
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place


def empty_entries(table: Place, version: int) -> list[int]:
    """Return versions of a Delta table, up to `version`, whose log entries are empty, in order.

    Only entries after the newest log checkpoint are checked, since a log may have many thousand.
    """
    log = table / "_delta_log"
    later = range(_checkpoint(log) + 1, version + 1)
    return [entry for entry in later if _is_empty(log / f"{entry:020d}.json")]


def check_no_entry_is_empty(table: Place, version: int) -> None:
    """Check that no log entry of a table, up to a version, is empty.

    Raises:
        KeyfoldError: an entry is empty.
    """
    for entry in empty_entries(table, version):
        raise empty_entry_error(table, entry)


def empty_entry_error(table: Place, version: int) -> KeyfoldError:
    """Return the error for a reader of a table that has an empty log entry."""
    return KeyfoldError(
        f"the log of {table} is damaged: entry {version} is empty, so that rows may be missing from the table; restore it "
        "from a backup. If it is a table of Keyfold, its next ingest or run says what else can be done"
    )


def take_back(table: Place, version: int) -> None:
    """Remove the last log entry, which is empty because a power cut interrupted its commit."""
    check_held()
    log = table / "_delta_log"
    (log / f"{version:020d}.json").unlink()
    sync_folder(log)


def _checkpoint(log: Place) -> int:
    """Return the version of the newest checkpoint, -1 before the first."""
    try:
        return int(json.loads((log / "_last_checkpoint").read_text(encoding="utf-8"))["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return -1


def _is_empty(entry: Place) -> bool:
    try:
        return entry.stat().st_size == 0
    except FileNotFoundError:
        return False  # a missing entry is another fault (`positions`)
