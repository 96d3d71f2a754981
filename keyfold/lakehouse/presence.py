"""Check that the data files of a Delta table exist with the sizes in its log. Files are listed, not opened."""

from urllib.parse import unquote

from deltalake import DeltaTable

from keyfold.errors import Damaged
from keyfold.lakehouse.files import files_below
from keyfold.storage.place import Place, local_path

_SHOWN = 3


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
