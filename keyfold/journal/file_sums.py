"""Compute and compare the recorded size, modification time and checksum of a file.

The checksum of a file on a disk is the xxHash of its content; that of an object in a bucket is the store's tag, so that it need
not be read. A file is compared by the recorded kind, wherever it is now.
"""

import hashlib
import json
import re
from collections.abc import Callable
from io import BytesIO
from typing import NamedTuple

import polars as pl

from keyfold.lakehouse.checksums import checksum_of, checksum_of_bytes
from keyfold.lakehouse.files import open_for_reading
from keyfold.storage.place import FoundFile, Place

NUMBER = "keyfold.number"
"""Key of a Parquet file's metadata with the version of a file that is replaced."""

_XXHASH = re.compile(r"[0-9a-f]{16}")


class FileSum(NamedTuple):
    """The recorded properties of a file.

    Attributes:
        bytes: its size.
        changed_at: modification time, nanoseconds since 1970.
        checksum: checksum of the content, or the store's tag; empty if there is none.
        order: version of a file that is replaced; empty for other files.
    """

    bytes: int
    changed_at: int
    checksum: str
    order: str = ""


def is_untouched(known: FileSum, found: FoundFile) -> bool:
    """Whether the listing shows that a file is unchanged."""
    return (known.bytes, known.changed_at) == (found.bytes, found.changed_at) and (
        not found.tag or known.checksum == found.tag
    )


def sum_of(key: str, found: FoundFile, known: FileSum | None = None) -> FileSum:
    """Compute the properties of a file.

    Args:
        key: its part, and path below it.
        found: the listed file.
        known: the recorded properties, whose kind of checksum is used; None uses the kind for the file's storage.

    Raises:
        FileNotFoundError: the file was removed after it was listed.
    """
    name = key.rpartition("/")[2]
    order_of = _ORDERS.get("known" if key.startswith("files/") else name)
    order = _order(order_of, found.path) if order_of else ""
    return FileSum(found.bytes, found.changed_at, _checksum(found, known.checksum if known else None), order)


def difference(known: FileSum, now: FileSum) -> str | None:
    """Say what is wrong with a file; None if it is unchanged, or was replaced by a later version."""
    is_multipart = "-" in known.checksum + now.checksum  # the tag of a multipart upload depends on its parts too
    is_same = known.bytes == now.bytes and (known.checksum == now.checksum or is_multipart)
    if is_same or now.order > known.order:
        return None
    if known.order and now.order and now.order < known.order:
        return "is older than the one that was written last"
    if known.bytes != now.bytes:
        return f"has {now.bytes:,} bytes, and had {known.bytes:,}"
    return "is not what was written (its checksum is another one)"


def numbered(content: bytes, number: int) -> bytes:
    """Return a record that is replaced again and again, with its number and a digest of both in a second line."""
    return content + f"\n{number} {checksum_of_bytes(content + str(number).encode())}\n".encode()


def number_of(record: bytes) -> int:
    """Return the number of a record.

    Raises:
        ValueError: its digest is another one.
    """
    content, _, end = record.partition(b"\n")
    number = end.partition(b" ")[0]
    if not number.isdigit() or numbered(content, int(number)) != record:
        raise ValueError("its checksum is another one")
    return int(number)


def last_line(content: bytes) -> str:
    """Return the last batch in a journal's history, as text that sorts like numbers."""
    return f"{json.loads(content.splitlines()[-1])['batch']:09d}"


def _checksum(found: FoundFile, known: str | None) -> str:
    if known is None:
        return found.tag or _xxhash(found.path)
    if _XXHASH.fullmatch(known):
        return _xxhash(found.path)
    if known == found.tag:
        return known
    # The object may be a copy that another tool made. The tag of most stores is the MD5 of the content.
    md5 = hashlib.md5(found.path.read_bytes(), usedforsecurity=False).hexdigest()
    return known if known.strip('"') == md5 else found.tag


def _xxhash(path: Place) -> str:
    with open_for_reading(path) as file:
        return checksum_of(file)


def _order(order_of: Callable[[bytes], str], path: Place) -> str:
    try:
        return order_of(path.read_bytes())
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, pl.exceptions.PolarsError):
        return ""


_ORDERS: dict[str, Callable[[bytes], str]] = {
    "clock.json": lambda content: f"{number_of(content):020d}",
    "live.json": lambda content: f"{number_of(content):020d}",
    "history.jsonl": last_line,
    "_last_checkpoint": lambda content: f"{json.loads(content)['version']:020d}",
    "known": lambda content: f"{int(pl.read_parquet_metadata(BytesIO(content))[NUMBER]):012d}",
}
"""For each file that is replaced, by its name: a function that reads its version, as text that sorts like versions."""
