"""The files that ingest reads, told by the endings of their names: their format, and whether they are compressed."""

import gzip
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, Literal

from keyfold.storage.place import Place
from keyfold.storage.remote_path import RemotePath

Format = Literal["json", "csv", "parquet"]

_TEXT: dict[str, Format] = {".ndjson": "json", ".jsonl": "json", ".json": "json", ".csv": "csv"}
_PARQUET = ".parquet"
_COMPRESSED = ".gz"

READABLE = ".ndjson, .jsonl, .json and .csv, also with .gz, and .parquet"
"""Every ending that is read, for people."""

_READ_AHEAD = 8 << 20
"""Bytes of an object that are fetched at a time: each costs the store's wait once."""


@dataclass(frozen=True)
class FileType:
    """What the name of a file says of it.

    Attributes:
        format: of its rows; None where ingest does not know it.
        is_compressed: whether it is read through gzip.
        stem: its name without these endings.
    """

    format: Format | None
    is_compressed: bool
    stem: str


def file_type(path: Place | PurePath) -> FileType:
    """What a file's name says of it, whether upper or lower case.

    Example:
        >>> file_type(PurePath("web/cpu.v2.CSV.gz"))
        FileType(format='csv', is_compressed=True, stem='cpu.v2')
    """
    is_compressed = path.suffix.lower() == _COMPRESSED
    inner = PurePath(path.stem) if is_compressed else path
    ending = inner.suffix.lower()
    # Parquet compresses its own columns, and wants to be read at any place: within .gz it is none.
    found = _TEXT.get(ending) or ("parquet" if ending == _PARQUET and not is_compressed else None)
    return FileType(found, is_compressed, inner.stem if found else inner.name)


def open_text(path: Place) -> IO[bytes] | gzip.GzipFile:
    """Open a file of text, decompressed where its name says so.

    Raises:
        OSError: it cannot be read.
    """
    if isinstance(path, RemotePath):
        opened = path.open_reader(_READ_AHEAD)
        return gzip.GzipFile(fileobj=opened) if file_type(path).is_compressed else opened
    if file_type(path).is_compressed:
        return gzip.open(path, "rb")
    # Unbuffered: who reads it takes large pieces, and a buffer would copy each once more.
    return open(path, "rb", buffering=0)
