"""Check that a lakehouse, and the data files of a Delta table, are there. Files are listed, not opened."""

import json
import os
from collections.abc import Mapping
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from keyfold.errors import Damaged, NotFound
from keyfold.lakehouse.paths import Lakehouse
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place
from keyfold.storage.store_failures import failure_of_store

_SHOWN = 3
LANDING = "landing"
_FOLDERS = ("jobs", "tables", "ingest", "events", "quarantine", "monitoring", LANDING)


def check_lakehouse_is_there(lakehouse: Lakehouse) -> None:
    """Check that a directory is a lakehouse, and that all of its folders can be listed but those below `landing/`.

    Raises:
        NotFound: the directory does not exist, or has no files of a lakehouse.
        Damaged: a folder cannot be read.
    """
    home, is_local, files = lakehouse.home, lakehouse.home.local_path is not None, 0
    try:
        for name in _FOLDERS:
            # In landing folders, producers may do what they like: who reads them reports what cannot be read there.
            is_ours = name != LANDING
            for _ in (home / name).files_below(None if is_ours else lambda _: None):
                files += 1
                # Path.glob passes over folders that it cannot read: look into each. A store refuses a listing by itself.
                if not (is_local and is_ours):
                    break
    except OSError as error:
        raise Damaged(
            f"{error.filename or home} cannot be read: {error.strerror or error}; give this user access to all of the "
            "lakehouse, or repair its disk"
        ) from None
    if not files:
        raise NotFound(
            f"there is no lakehouse in {home}: it has no streams, jobs or landed files; mount its disk, or give another "
            "directory with --home"
        )


def named_files(delta: DeltaTable) -> dict[str, int]:
    """Return the size in bytes of each data file of a table, by its path relative to the table's folder."""
    actions = delta.get_add_actions()
    # Paths in Delta's log are URLs.
    return {
        unquote(path) if "%" in path else path: size
        for path, size in zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    }


def absent_files(table: Place, delta: DeltaTable, sizes: Mapping[str, int] | None = None) -> dict[str, str]:
    """Return the data files of a table that are missing or have another size, each with the fault as text.

    Args:
        table: the table's folder.
        delta: the table as it was read.
        sizes: the size in bytes of each file that was listed, by its path relative to the folder; None looks for them.
    """
    named = named_files(delta)
    sizes = _sizes(table, named) if sizes is None else sizes
    return {
        path: "is gone" if sizes.get(path) is None else f"has {sizes[path]:,} bytes, but {size:,} in the table's log"
        for path, size in named.items()
        if sizes.get(path) != size
    }


def check_files_are_there(table: Place, delta: DeltaTable, whose: str, remedy: str) -> None:
    """Check that a table's data files exist with the sizes in its log.

    Args:
        table: the table's folder.
        delta: the table as it was read.
        whose: a name for the table, for the error message.
        remedy: what can be done other than restoring the files, for the error message.

    Raises:
        KeyfoldError: a file is missing or has another size.
    """
    if absent := absent_files(table, delta):
        faults = [f"{path} {what}" for path, what in list(absent.items())[:_SHOWN]]
        more = f", and {len(absent) - _SHOWN:,} more" if len(absent) > _SHOWN else ""
        raise Damaged(
            f"{whose} in {table} lacks data files: {'; '.join(faults)}{more}; restore them from a backup, or {remedy}"
        )


def _sizes(table: Place, named: Mapping[str, int]) -> dict[str, int]:
    if (folder := table.local_path) is None:
        # In a store one request lists a thousand files; `stat` would be a request for each.
        return {file.below: file.size for file in table.files_below()}
    sizes: dict[str, int] = {}
    for path in named:
        try:
            # By its text: to make a `Path` takes longer than the call.
            sizes[path] = os.stat(f"{folder}/{path}").st_size
        except FileNotFoundError:
            continue
    return sizes


def empty_entries(table: Place, version: int) -> list[int]:
    """Return versions of a Delta table, up to `version`, whose log entries are empty, in order.

    Only entries after the newest log checkpoint are checked, since a log may have many thousand.
    """
    log = table / "_delta_log"
    later = range(_checkpoint(log) + 1, version + 1)
    return [entry for entry in later if _is_empty(log / f"{entry:020d}.json")]


def is_damaged(table: Place) -> bool:
    """Whether the log of an existing Delta table is damaged, so that nothing can be committed to it.

    Raises:
        KeyfoldError: the store fails.
    """
    try:
        delta = DeltaTable(str(table))
    except TableNotFoundError:
        return False
    except DeltaError as error:
        if (failed := failure_of_store(error, table)) is not None:
            raise failed from error
        return True
    return bool(empty_entries(table, delta.version()))


def check_no_entry_is_empty(table: Place, version: int) -> None:
    """Check that no log entry of a table, up to a version, is empty.

    Raises:
        KeyfoldError: an entry is empty.
    """
    for entry in empty_entries(table, version):
        raise damaged_entry(table, entry, "is empty")


def damaged_entry(table: Place, version: int, what: str) -> Damaged:
    """Return the error for a reader of a table with a damaged log entry, of which `what` is wrong."""
    return Damaged(
        f"the log of {table} is damaged: entry {version} {what}, so that rows may be missing from the table; restore it "
        "from a backup. If it is a table of Keyfold, its next ingest or run says what else can be done"
    )


def take_back(table: Place, version: int) -> None:
    """Remove the last log entry, which is empty because a power cut interrupted its commit."""
    check_held()
    log = table / "_delta_log"
    (log / f"{version:020d}.json").unlink()
    log.sync_folder()


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
