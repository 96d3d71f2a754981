"""What is recorded of one file to notice that it was damaged: its size, when it changed, and a checksum.

A checksum is of one of three kinds, told by its form:

- xxHash of the content, of a file on a disk;
- the store's own tag of an object in a bucket, for which nothing is read;
- BLAKE2b of the content, of a file that a backup has copied from a bucket: a tag may say nothing of a copy, since stores
  that encrypt give another one to every write.

A file is compared in the kind that was recorded of it, wherever it lies by then.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import polars as pl

from keyfold.lakehouse.checksums import checksum_of, checksum_of_bytes
from keyfold.lakehouse.files import open_for_reading
from keyfold.lakehouse.pointers import NEXT
from keyfold.storage.place import Place
from keyfold.times import from_iso, micros

NUMBER = "keyfold.number"
"""Key of a Parquet file's metadata that says which version of a replaced file it is."""

_PLACE = re.compile(rb'"(?:file|s3a):[^"]*?/checkpoint/state/')
_XXHASH = re.compile(r"[0-9a-f]{16}")
_BLAKE2B = re.compile(r"[0-9a-f]{64}")


class FileSum(NamedTuple):
    """A file as it was when its checksum was recorded.

    Attributes:
        bytes: its size.
        changed_at: nanoseconds since 1970.
        checksum: of its content, or a store's tag; empty where it has none.
        order: which version of a file that is replaced; empty of all others.
    """

    bytes: int
    changed_at: int
    checksum: str
    order: str = ""


class ListedFile(NamedTuple):
    """A file of a part, as a listing tells of it: paths are made of few, and there may be thousands."""

    part: Place
    below: str
    bytes: int
    changed_at: int
    tag: str = ""

    @property
    def path(self) -> Place:
        """Where it is."""
        return self.part / self.below if self.below else self.part


def is_untouched(known: FileSum, found: ListedFile) -> bool:
    """Whether a listing alone shows that a file is as it was."""
    return (known.bytes, known.changed_at) == (found.bytes, found.changed_at) and (
        isinstance(found.part, Path) or known.checksum == found.tag
    )


def sum_of(key: str, found: ListedFile, known: FileSum | None = None) -> FileSum:
    """A file as it is now.

    Args:
        key: its part and path below it.
        found: as listed.
        known: as recorded, to have the checksum in the same kind; else in the kind of the place where it lies.

    Raises:
        FileNotFoundError: it went since it was listed.
    """
    if "/_metadata/" in key:
        # It names files by their whole paths, and follows when the home is moved.
        content = _PLACE.sub(b'"', found.path.read_bytes())
        return FileSum(len(content), found.changed_at, checksum_of_bytes(content))
    name = key.rpartition("/")[2]
    order_of = _ORDERS.get("known" if key.startswith("files/") else name)
    order = _order(order_of, found.path) if order_of else ""
    return FileSum(found.bytes, found.changed_at, _checksum(found, known.checksum if known else None), order)


def difference(known: FileSum, now: FileSum) -> str | None:
    """What is wrong with a file; None where it is as it was, or was replaced by a later one."""
    is_multipart = "-" in known.checksum + now.checksum  # tags of such say how it was sent, too
    is_same = known.bytes == now.bytes and (known.checksum == now.checksum or is_multipart)
    if is_same or now.order > known.order:
        return None
    if known.order and now.order and now.order < known.order:
        return "is older than the one that was written last"
    if known.bytes != now.bytes:
        return f"has {now.bytes:,} bytes, and had {known.bytes:,}"
    return "is not what was written (its checksum is another one)"


def in_digests(files: Mapping[str, FileSum], digests: Mapping[str, str]) -> dict[str, FileSum]:
    """Files with the digest (BLAKE2b, 256 bits) of their content in the place of a store's tag, by that tag."""
    return {key: one._replace(checksum=digests.get(one.checksum, one.checksum)) for key, one in files.items()}


def last_line(content: bytes) -> str:
    """The last batch that the history of a journal has a line of, as text that sorts as batches do."""
    return f"{json.loads(content.splitlines()[-1])['batch']:09d}"


def _checksum(found: ListedFile, known: str | None) -> str:
    is_on_disk = isinstance(found.part, Path)
    if known is None:
        return _xxhash(found.path) if is_on_disk else found.tag
    if _XXHASH.fullmatch(known):
        return _xxhash(found.path)
    if _BLAKE2B.fullmatch(known):
        return _hashed(found.path, hashlib.blake2b(digest_size=32))
    if known == found.tag:
        return known
    # A copy that was made by other means; most stores' tags are of the content.
    md5 = _hashed(found.path, hashlib.md5(usedforsecurity=False))
    return known if known.strip('"') == md5 else found.tag


def _xxhash(path: Place) -> str:
    with open_for_reading(path) as file:
        return checksum_of(file)


def _hashed(path: Place, digest: "hashlib._Hash | hashlib.blake2b") -> str:
    with open_for_reading(path) as file:
        while some := file.read(1 << 20):
            digest.update(some)
    return digest.hexdigest()


def _order(order_of: Callable[[bytes], str], path: Place) -> str:
    try:
        return order_of(path.read_bytes())
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, pl.exceptions.PolarsError):
        return ""


def _pointer(content: bytes) -> str:
    told = json.loads(content)
    return f"{told['generation']} {told.get('cleared_to', '')} {told.get(NEXT, {}).get('generation', '')}"


_ORDERS: dict[str, Callable[[bytes], str]] = {
    "standing.json": lambda content: f"{micros(from_iso(json.loads(content)['processing_time'])):020d}",
    "history.jsonl": last_line,
    "_last_checkpoint": lambda content: f"{json.loads(content)['version']:020d}",
    "current.json": _pointer,
    "known": lambda content: f"{int(pl.read_parquet_metadata(BytesIO(content))[NUMBER]):012d}",
}
"""How a file that is replaced says which version it is, by its name: text that sorts as the versions do."""
