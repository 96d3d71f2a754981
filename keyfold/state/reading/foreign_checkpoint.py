"""Check a checkpoint of another application before Spark reads it.

Spark copies RocksDB files to the local paths that a snapshot's metadata names, even with `..`, and reads metadata of any size
into memory. A malicious checkpoint could overwrite files or exhaust memory.
"""

import json
import re
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from keyfold.errors import KeyfoldError

LARGEST_DESCRIPTION = 64 << 20
"""Most bytes of a file that describes batches, operators or a snapshot: Spark reads it whole."""

MOST_PARTITIONS = 100_000

_SCHEMA_FILE = re.compile(r"file:.*/state/\d+/_stateSchema/.+")
_PATH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)?/")
_ENTRY = b"PK\x03\x04"


def check_checkpoint_is_harmless(checkpoint: Path) -> None:
    """Check that a checkpoint names no file outside its folder, and has no file that is far larger than Spark writes it.

    Raises:
        KeyfoldError: a link or a name leads out of the folder, a file is not regular, or a description is too large; names
            the file.
    """
    root = checkpoint.resolve()
    for path in root.rglob("*"):
        if not path.resolve().is_relative_to(root):
            raise _refusal(checkpoint, path, "is a link out of its folder")
        try:
            status = path.stat()
        except FileNotFoundError:  # a running query deletes files that it no longer needs
            continue
        if stat.S_ISDIR(status.st_mode):
            continue
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(checkpoint, path, "is no regular file")
        # Rows of the state and their changes, which may be large.
        if path.suffix in (".sst", ".log", ".crc", ".delta", ".snapshot", ".changelog"):
            continue
        if status.st_size > LARGEST_DESCRIPTION:
            raise _refusal(checkpoint, path, f"has {status.st_size:,} bytes; {LARGEST_DESCRIPTION:,} are the most")
        if path.suffix == ".zip":
            _check_snapshot(checkpoint, path)
        elif "_metadata" in path.parts:
            _check_description(checkpoint, path)


def _check_snapshot(checkpoint: Path, path: Path) -> None:
    """Check the metadata of a snapshot, which names RocksDB files and the local names of their copies."""
    try:
        with zipfile.ZipFile(path) as snapshot:
            entries = snapshot.infolist()
            # Spark reads entries one after the other, and not by the directory at the end of the file.
            if path.read_bytes().count(_ENTRY) != len({entry.filename for entry in entries}):
                raise _refusal(checkpoint, path, "holds files that its directory does not name once")
            if (size := sum(entry.file_size for entry in entries)) > LARGEST_DESCRIPTION:
                raise _refusal(checkpoint, path, f"unpacks to {size:,} bytes; {LARGEST_DESCRIPTION:,} are the most")
            described = snapshot.read("metadata").decode() if "metadata" in snapshot.namelist() else ""
    except FileNotFoundError:
        return
    except (zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise _refusal(checkpoint, path, f"is damaged: {error}") from error
    for content in _objects(described):
        for one in (*content.get("sstFiles", ()), *content.get("logFiles", ())):
            names = [value for key, value in one.items() if key.endswith("FileName")]
            if leads := next((name for name in names if name != PurePosixPath(str(name)).name or name == ".."), None):
                raise _refusal(checkpoint, path, f"names the file {leads!r}, which is outside its folder")


def _check_description(checkpoint: Path, path: Path) -> None:
    """Check the description of an operator, which names the files of its state schemas and the number of partitions."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for content in _objects(text):
        for name, value in _values(content):
            if name == "numPartitions" and isinstance(value, int) and value > MOST_PARTITIONS:
                raise _refusal(
                    checkpoint, path, f"has the number {value:,}; {MOST_PARTITIONS:,} partitions are the most"
                )
            # `state_source` replaces paths in the text, so a path must be spelled the same there.
            if isinstance(value, str) and _PATH.match(value):
                inside = _SCHEMA_FILE.fullmatch(value) and ".." not in PurePosixPath(value).parts
                if not inside or f'"{value}"' not in text:
                    raise _refusal(checkpoint, path, f"names the file {value!r}, which is outside its folder")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a file of Spark, one in a line, after the version. Spark itself refuses other lines."""
    for line in text.splitlines():
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, dict):
            yield content


def _values(content: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in an object, at any depth, with the names of their fields."""
    if isinstance(content, dict):
        for field, value in content.items():
            yield from _values(value, field)
    elif isinstance(content, list):
        for value in content:
            yield from _values(value, name)
    else:
        yield name, content


def _refusal(checkpoint: Path, path: Path, why: str) -> KeyfoldError:
    return KeyfoldError(
        f"checkpoint {checkpoint} is not as Spark writes one: {path} {why}. It is not read: copy it again from its source"
    )
