"""Check that Delta tables and folders of others name no file outside their own folder."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from urllib.parse import unquote

from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.storage.place import Place, local_path, path_below

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def check_files_are_inside(table: Place) -> DeltaTable:
    """Open a Delta table after checking that all its data files are below its folder.

    Raises:
        KeyfoldError: its log names a file elsewhere: by an absolute path (as a shallow clone does), by `..`, or by a link.
    """
    delta = DeltaTable(str(table))
    names = delta.get_add_actions()["path"].to_pylist()
    # Paths in a log are URLs: %2e%2e means .. too.
    leads_out = next((name for name in names if _leads_out(unquote(name))), None)
    if leads_out is not None:
        raise _refusal(table, leads_out)
    check_no_link_leads_out(table, (table / unquote(name) for name in names))
    return delta


def check_no_link_leads_out(folder: Place, files: Iterable[Place]) -> None:
    """Check that files of a folder are inside it after links are resolved.

    Raises:
        KeyfoldError: a file is outside.
    """
    # Buckets have no links that leave a folder.
    if local_path(folder) is None:
        return
    root = folder.resolve()
    for file in files:
        if path_below(file.resolve(), root) is None:
            raise _refusal(folder, str(file))


def _leads_out(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or _SCHEME.match(name) is not None


def _refusal(folder: Place, name: str) -> KeyfoldError:
    return KeyfoldError(
        f"{folder} names the file {name}, which is outside its folder and is not read; copy the rows into a table of their own "
        "first (instead of a shallow clone, make a deep one)"
    )
