"""Cut a Delta table's log after a batch of an application."""

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
        version: the version of the table.
        files: entries, checkpoints and checksums up to that version.
        pointer: the content of `_last_checkpoint` and its tag in a store; None if there is none.
        is_behind: whether the pointer names a later version.
    """

    version: int
    files: list[FoundFile]
    pointer: tuple[bytes, str] | None
    is_behind: bool


def cut_log(log: Place, application: str = "", last: int = -1) -> LogCut:
    """Cut a log before the first commit of an application's batch after `last`. Without an application, take all of it.

    Raises:
        FileNotFoundError: entries were removed while they were read.
    """
    pointer = _read_if_there(log / "_last_checkpoint")
    found = {file.path.name: file for file in files_below(log) if file.path.parent == log}
    versions = sorted((int(match[1]) for name in found if (match := _ENTRY.fullmatch(name))), reverse=True)
    cut = versions[0]
    # From the newest entry backwards: stop at the newest one of a batch up to `last`.
    for version in versions if application else ():
        batch = _batch_of(log / f"{version:020d}.json", application)
        if batch is not None and batch <= last:
            break
        if batch is not None:
            cut = version - 1
    files = [file for name, file in found.items() if (match := _VERSIONED.fullmatch(name)) and int(match[1]) <= cut]
    is_behind = pointer is not None and json.loads(pointer[0])["version"] > cut
    return LogCut(cut, files, pointer, is_behind)


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
