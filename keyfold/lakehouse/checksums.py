"""Checksums of files: 64 bits of xxHash, at some 7 GB/s. They tell damage; they are no defence against an attacker.

A data file's name ends in its checksum (`part-<uuid>_<checksum>.parquet`), so that every copy of it can be verified wherever
it is, and whatever became of the records that named it.
"""

import re
from pathlib import PurePath
from typing import IO

import xxhash

_CHUNK = 256 << 10
"""Larger ones do not stay in the processor's cache between the read and the sum."""

_IN_NAME = re.compile(r"_([0-9a-f]{16})\.(parquet|arrow)$")


def checksum_of(file: IO[bytes]) -> str:
    """The checksum of all that an open file holds, as sixteen hexadecimal digits; leaves the file at its end."""
    file.seek(0)
    checksum = xxhash.xxh3_64()
    while chunk := file.read(_CHUNK):
        checksum.update(chunk)
    return checksum.hexdigest()


def checksum_of_bytes(content: bytes) -> str:
    """The checksum of some bytes, as `checksum_of` gives it.

    Example:
        >>> checksum_of_bytes(b"keyfold")
        'a81a56cf8dbe8230'
    """
    return xxhash.xxh3_64_hexdigest(content)


def name_with_checksum(path: PurePath, file: IO[bytes]) -> str:
    """The name of a data file that ends in the checksum of what is open."""
    return f"{path.stem}_{checksum_of(file)}{path.suffix}"


def checksum_in_name(name: str) -> str | None:
    """The checksum that a data file's name says; None of a name that says none.

    Example:
        >>> checksum_in_name("part-0a1b_00c0ffee00c0ffee.parquet"), checksum_in_name("part-0a1b.parquet")
        ('00c0ffee00c0ffee', None)
    """
    found = _IN_NAME.search(name)
    return found[1] if found else None
