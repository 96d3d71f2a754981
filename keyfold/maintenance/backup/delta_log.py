"""The part of a Delta table's log that ends with a batch of an application."""

import json
import re
from typing import NamedTuple

from keyfold.lakehouse.files import FoundFile, files_below, read_with_tag
from keyfold.storage.place import Place

_ENTRY = re.compile(r"(\d{20})\.json")
_VERSIONED = re.compile(r"(\d{20})\..*")


class LogCut(NamedTuple):
    """A log up to a version.

    Attributes:
        version: of the table.
        files: entries, checkpoints and checksums up to that version.
        pointer: the content of `_last_checkpoint`, and its tag in a store; None where there is none.
        is_behind: whether that names a later version.
    """

    version: int
    files: list[FoundFile]
    pointer: tuple[bytes, str] | None
    is_behind: bool


def cut_log(log: Place, application: str = "", last: int = -1) -> LogCut:
    """Cut a log before the first entry by which an application wrote a batch after `last`; whole without an application.

    Raises:
        FileNotFoundError: entries went while they were read.
    """
    pointer = _read_if_there(log / "_last_checkpoint")
    found = {file.path.name: file for file in files_below(log) if file.path.parent == log}
    versions = sorted((int(match[1]) for name in found if (match := _ENTRY.fullmatch(name))), reverse=True)
    cut = versions[0]
    for version in versions if application else ():
        batch = _batch_of(log / f"{version:020d}.json", application)
        if batch is not None and batch <= last:
            break
        if batch is not None:
            cut = version - 1
    kept = [file for name, file in found.items() if (match := _VERSIONED.fullmatch(name)) and int(match[1]) <= cut]
    is_behind = pointer is not None and json.loads(pointer[0])["version"] > cut
    return LogCut(cut, kept, pointer, is_behind)


def _batch_of(entry: Place, application: str) -> int | None:
    for line in entry.read_bytes().splitlines():
        if b'"txn"' in line and (txn := json.loads(line).get("txn")) and txn["appId"] == application:
            return int(txn["version"])
    return None


def _read_if_there(path: Place) -> tuple[bytes, str] | None:
    try:
        return read_with_tag(path)
    except FileNotFoundError:
        return None
