"""Opens text files: decompresses them, proves them whole and readable, and cuts them into chunks of lines."""

import codecs
import gzip
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

CHUNK = 16 << 20
"""Bytes of text that are parsed at once."""

_IN_MEMORY = 64 << 20
_BLOCK = 1 << 20


class UnreadableFileError(Exception):
    """A file that goes to quarantine as a whole; the message is the reason."""


def open_text(path: Path) -> IO[bytes]:
    """A copy of a text file, decompressed and proven whole, without its byte order mark.

    The copy is made before the first row is: of a file that turns out broken at its end, nothing may be emitted.
    Small files stay in memory, others go to a temporary file.

    Raises:
        UnreadableFileError: not UTF-8, or binary.
        OSError, EOFError, zlib.error: it cannot be read or decompressed.
    """
    copy = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - the caller closes it
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb") as source:
            _copy_verified(source, copy)
    except BaseException:
        copy.close()
        raise
    copy.seek(0)
    if copy.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
        copy.seek(0)
    return copy


def chunks(text: IO[bytes], size: int = CHUNK) -> Iterator[bytes]:
    """Cut at line ends: each chunk holds whole lines; only the last may lack its newline."""
    while chunk := text.read(size):
        if not chunk.endswith(b"\n"):
            chunk += text.readline()
        yield chunk


def _copy_verified(source: IO[bytes] | gzip.GzipFile, copy: IO[bytes]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    pending, done = False, 0
    while block := source.read(_BLOCK):
        if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not done:
            raise UnreadableFileError("the file is not UTF-8 but UTF-16")
        if b"\0" in block:
            raise UnreadableFileError("the file holds NUL bytes: it is binary, or UTF-16")
        if pending or not block.isascii():
            _decode(decoder, block, done)
            pending = bool(decoder.getstate()[0])
        copy.write(block)
        done += len(block)
    _decode(decoder, b"", done, final=True)


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, done: int, *, final: bool = False) -> None:
    held = len(decoder.getstate()[0])
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError as error:
        raise UnreadableFileError(
            f"the file is not UTF-8: {error.reason} at byte {done - held + error.start}"
        ) from None
