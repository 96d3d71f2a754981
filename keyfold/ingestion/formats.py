"""File formats that ingest reads, and compression, by file extension."""

import gzip
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, Literal

from keyfold.lakehouse.files import open_for_reading
from keyfold.storage.place import Place, local_path

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
    """Return the type of a file, by its name, in upper or lower case.

    Example:
        >>> file_type(PurePath("web/cpu.v2.CSV.gz"))
        FileType(format='csv', is_compressed=True, stem='cpu.v2')
    """
    is_compressed = path.suffix.lower() == _COMPRESSED
    inner = PurePath(path.stem) if is_compressed else path
    ending = inner.suffix.lower()
    # Parquet compresses its columns itself and needs random access, so .parquet.gz is not supported.
    form = _TEXT.get(ending) or ("parquet" if ending == _PARQUET and not is_compressed else None)
    return FileType(form, is_compressed, inner.stem if form else inner.name)


def open_text(path: Place) -> IO[bytes] | gzip.GzipFile:
    """Open a text file, and decompress it if its name says that it is compressed.

    Raises:
        OSError: the file cannot be read.
    """
    if not file_type(path).is_compressed:
        return open_for_reading(path, _READ_AHEAD)
    file = local_path(path)
    return gzip.open(file, "rb") if file else gzip.GzipFile(fileobj=open_for_reading(path, _READ_AHEAD))
