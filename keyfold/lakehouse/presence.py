"""Whether the data files that a Delta table's log names are there with their sizes: a listing, no file is opened."""

from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable

from keyfold.errors import Damaged
from keyfold.lakehouse.files import files_below
from keyfold.storage.place import Place, path_below

_SHOWN = 3


def named_files(delta: DeltaTable) -> dict[str, int]:
    """The size in bytes of each data file that a table consists of, by its path below the table's folder."""
    actions = delta.get_add_actions()
    # Delta's log has paths as URLs.
    return {
        unquote(path): size
        for path, size in zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    }


def absent_files(table: Place, delta: DeltaTable) -> dict[str, str]:
    """What is wrong with data files that a table consists of, by their path: they are gone, or have another size."""
    named = named_files(delta)
    there = _sizes(table, named)
    return {
        path: "is gone" if there.get(path) is None else f"has {there[path]:,} bytes, and its log says {size:,}"
        for path, size in named.items()
        if there.get(path) != size
    }


def check_files_are_there(table: Place, delta: DeltaTable, whose: str, remedy: str) -> None:
    """See that a table's data files are there with their sizes.

    Args:
        table: its folder.
        delta: the table as it was read.
        whose: what to call the table in the error.
        remedy: what else to do than to restore the files.

    Raises:
        KeyfoldError: some are not.
    """
    if absent := absent_files(table, delta):
        faults = [f"{path} {what}" for path, what in list(absent.items())[:_SHOWN]]
        more = f", and {len(absent) - _SHOWN:,} more" if len(absent) > _SHOWN else ""
        raise Damaged(
            f"{whose} in {table} lacks data files: {'; '.join(faults)}{more}; restore them from a backup, or {remedy}"
        )


def _sizes(table: Place, named: dict[str, int]) -> dict[str, int]:
    if not isinstance(table, Path):
        # A request lists a thousand.
        found = ((path_below(file.path, table), file.bytes) for file in files_below(table))
        return {path.as_posix(): size for path, size in found if path is not None}
    sizes: dict[str, int] = {}
    for path in named:
        try:
            sizes[path] = (table / path).stat().st_size
        except FileNotFoundError:
            continue
    return sizes
