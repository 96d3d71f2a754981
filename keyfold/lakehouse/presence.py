"""Check that a lakehouse, and the data files of a Delta table, are there. Files are listed, not opened."""

from urllib.parse import unquote

from deltalake import DeltaTable

from keyfold.errors import Damaged, NotFound
from keyfold.lakehouse.files import files_below
from keyfold.lakehouse.paths import Lakehouse
from keyfold.storage.place import Place, local_path

_SHOWN = 3
_FOLDERS = ("jobs", "ingest", "events", "quarantine", "monitoring", "landing")


def check_lakehouse_is_there(lakehouse: Lakehouse) -> None:
    """Check that a directory is a lakehouse, and that all of its folders can be listed.

    Raises:
        NotFound: the directory does not exist, or has no files of a lakehouse.
        Damaged: a folder cannot be read.
    """
    home, is_local, files = lakehouse.home, local_path(lakehouse.home) is not None, 0
    try:
        for name in _FOLDERS:
            for _ in files_below(home / name):
                files += 1
                # Path.glob passes over folders that it cannot read: look into each. A store refuses a listing by itself.
                if not is_local:
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
        unquote(path): size
        for path, size in zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    }


def absent_files(table: Place, delta: DeltaTable) -> dict[str, str]:
    """Return the data files of a table that are missing or have another size, each with the fault as text."""
    named = named_files(delta)
    sizes = _sizes(table, named)
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


def _sizes(table: Place, named: dict[str, int]) -> dict[str, int]:
    if local_path(table) is None:
        # In a store one request lists a thousand files; `stat` would be a request for each.
        return {file.below: file.bytes for file in files_below(table)}
    sizes: dict[str, int] = {}
    for path in named:
        try:
            sizes[path] = (table / path).stat().st_size
        except FileNotFoundError:
            continue
    return sizes
