"""Small files that are whole or not there: written aside, made durable, and put in their place in one step."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

_ASIDE = ".aside-"


def read_json(path: Path) -> dict[str, Any]:
    """Read a small JSON object."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a small JSON object; see `write_durably`."""
    write_durably(path, json.dumps(content, indent=1, sort_keys=True).encode())


def write_durably(path: Path, content: bytes) -> None:
    """Write a file in one atomic step that survives a power cut: a reader sees the old one or the new one, whole.

    Raises:
        OSError: the disk is full or fails; the old file is as it was, and nothing is left beside it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=_ASIDE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename or a new name in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove what a killed process had written aside; call it only under the lock of whoever writes there."""
    for aside in folder.glob(f"{_ASIDE}*"):
        aside.unlink(missing_ok=True)
