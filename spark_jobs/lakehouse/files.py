"""Files that are whole or not there: the one place that writes aside, makes durable, and puts in place in one step."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from spark_jobs.errors import KeyfoldError

_ASIDE = ".aside-"


def read_json(path: Path) -> dict[str, Any]:
    """Read a small JSON object.

    Raises:
        KeyfoldError: it is none; the disk has failed, or somebody has edited it.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise KeyfoldError(f"{path} is damaged ({error}); restore it from a backup") from error
    if not isinstance(found, dict):
        raise KeyfoldError(f"{path} is damaged (it holds no object); restore it from a backup")
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a small JSON object; see `write_durably`."""
    write_durably(path, json.dumps(content, indent=1, sort_keys=True).encode())


def write_durably(path: Path, content: bytes) -> None:
    """Write a file in one atomic step that survives a power cut: a reader sees the old one or the new one, whole.

    Raises:
        OSError: the disk is full or fails; the old file is as it was, and nothing is left beside it.
    """
    _write(path, content, durably=True)
    sync_folder(path.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one atomic step, for what may be lost with the machine's power and made again.

    Raises:
        OSError: as `write_durably`.
    """
    _write(path, content, durably=False)


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file of a name that nobody looks for yet; it is durable at the end, or gone if that was not reached.

    Raises:
        OSError: the disk is full or fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(path, "xb") as file:
            yield file
            _sync(file)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def sync_file(path: Path) -> None:
    """Make durable what another program has written."""
    # For writing: of a file that is open for reading alone, some systems sync nothing.
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


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


def _write(path: Path, content: bytes, *, durably: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, since a rename is atomic within one file system alone; with a dot, so that no reader sees it.
    # Made with mode 0600, which the file keeps: some of what is written so is a secret.
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=_ASIDE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durably:
                # Before the rename: else a power cut may leave the new name with nothing in it.
                _sync(file)
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
