"""Checksums of files: 64 bits of xxHash, at some 7 GB/s. They detect damage, not an attacker's changes.

The name of a data file ends in its checksum (`part-<uuid>_<checksum>.parquet`), so that any copy of it can be verified
without other records.
"""

import re
from pathlib import PurePath
from typing import IO

import xxhash

_CHUNK = 256 << 10
"""Bytes read at a time. Larger chunks leave the processor's cache before they are summed."""

_IN_NAME = re.compile(r"_([0-9a-f]{16})\.(parquet|arrow)$")


def checksum_of(file: IO[bytes]) -> str:
    """Return the checksum of an open file's content, as 16 hexadecimal digits. The file is at its end afterwards."""
    file.seek(0)
    checksum = xxhash.xxh3_64()
    while chunk := file.read(_CHUNK):
        checksum.update(chunk)
    return checksum.hexdigest()


def checksum_of_bytes(content: bytes) -> str:
    """Return the checksum of bytes, in the form of `checksum_of`.

    Example:
        >>> checksum_of_bytes(b"keyfold")
        'a81a56cf8dbe8230'
    """
    return xxhash.xxh3_64_hexdigest(content)


def name_with_checksum(path: PurePath, file: IO[bytes]) -> str:
    """Return the file's name with the checksum of its content: `<stem>_<checksum><suffix>`."""
    return f"{path.stem}_{checksum_of(file)}{path.suffix}"


def checksum_in_name(name: str) -> str | None:
    """Return the checksum in a data file's name; None if it has none.

    Example:
        >>> checksum_in_name("part-0a1b_00c0ffee00c0ffee.parquet"), checksum_in_name("part-0a1b.parquet")
        ('00c0ffee00c0ffee', None)
    """
    found = _IN_NAME.search(name)
    return found[1] if found else None
