"""File formats that ingest reads, and compression, by file extension."""

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
"""All supported extensions, for messages."""

_READ_AHEAD = 8 << 20
"""Bytes of an object that are fetched at a time. Each fetch waits once for the store."""


@dataclass(frozen=True)
class FileType:
    """The type of a file, by its name.

    Attributes:
        format: format of its rows; None if ingest does not know it.
        is_compressed: whether it is compressed with gzip.
        stem: its name without these extensions.
    """

    format: Format | None
    is_compressed: bool
    stem: str


def file_type(path: Place | PurePath) -> FileType:
    """The type of a file, by its name, in upper or lower case.

    Example:
        >>> file_type(PurePath("web/cpu.v2.CSV.gz"))
        FileType(format='csv', is_compressed=True, stem='cpu.v2')
    """
    is_compressed = path.suffix.lower() == _COMPRESSED
    inner = PurePath(path.stem) if is_compressed else path
    ending = inner.suffix.lower()
    # Parquet compresses its columns itself and needs random access, so .parquet.gz is not supported.
    found = _TEXT.get(ending) or ("parquet" if ending == _PARQUET and not is_compressed else None)
    return FileType(found, is_compressed, inner.stem if found else inner.name)


def open_text(path: Place) -> IO[bytes] | gzip.GzipFile:
    """Open a text file, and decompress it if its name says that it is compressed.

    Raises:
        OSError: the file cannot be read.
    """
    if isinstance(path, RemotePath):
        opened = path.open_reader(_READ_AHEAD)
        return gzip.GzipFile(fileobj=opened) if file_type(path).is_compressed else opened
    if file_type(path).is_compressed:
        return gzip.open(path, "rb")
    # Unbuffered: callers read large pieces, which a buffer would only copy.
    return open(path, "rb", buffering=0)
