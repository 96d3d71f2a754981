"""Open text files, decompress them, check their encoding, and cut them into chunks of whole lines.

A file may turn out to be broken at its end. Callers must discard all chunks of a file that raises an error.
"""

import codecs
from collections.abc import Iterator
from gzip import GzipFile
from typing import IO

import numpy as np
import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.formats import open_text
from keyfold.ingestion.parsing.rows import Lines
from keyfold.storage.place import Place

CHUNK = 16 << 20
"""Maximum bytes of text that are parsed at once."""

CHUNK_LINES = 1 << 17
"""Maximum lines that are parsed at once, since even short lines cost memory."""

_MIB = 1 << 20


class UnreadableFileError(Exception):
    """A file that goes to quarantine as a whole; the message is the reason."""


def read_chunks(path: Place, *, max_line: int, max_bytes: int) -> Iterator[bytes]:
    """Read the chunks of a text file, which is decompressed if its name ends in .gz; see `chunks`.

    Raises:
        OSError, EOFError, zlib.error: the file cannot be read or decompressed.
    """
    with open_text(path) as source:
        yield from chunks(source, max_line=max_line, max_bytes=max_bytes)


def chunks(
    source: IO[bytes] | GzipFile, size: int = CHUNK, *, max_line: int = CHUNK, max_bytes: int = 1 << 40
) -> Iterator[bytes]:
    """Cut text into chunks of whole lines, without the byte order mark. Only the last line may lack its newline.

    Args:
        source: the text.
        size: bytes that are read at once.
        max_line: maximum bytes of a line.
        max_bytes: maximum bytes of the text.

    Raises:
        UnreadableFileError: the text is not UTF-8, is binary, or exceeds a limit, which is noticed before more is in memory.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    rest, done, is_begun = b"", 0, False
    while block := source.read(size):
        _check(decoder, block, done)
        done += len(block)
        if done > max_bytes:
            raise UnreadableFileError(f"the file holds more than {in_bytes(max_bytes)} of text, which is its limit")
        data = rest + block if rest else block
        if not is_begun:
            # A read may return fewer bytes than the byte order mark has.
            if len(data) < len(codecs.BOM_UTF8):
                rest = data
                continue
            data, is_begun = data.removeprefix(codecs.BOM_UTF8), True
        _check_lines(data, max_line)
        cut = data.rfind(b"\n") + 1
        if cut:
            yield from _by_lines(data if cut == len(data) else data[:cut])
        rest = data[cut:]
    _decode(decoder, b"", done, final=True)
    if rest:
        _check_lines(rest, max_line)
        yield rest


def _check(decoder: codecs.IncrementalDecoder, block: bytes, done: int) -> None:
    if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not done:
        raise UnreadableFileError("the file is not UTF-8 but UTF-16")
    if b"\0" in block:
        raise UnreadableFileError("the file holds NUL bytes: it is binary, or UTF-16")
    # Checking for ASCII is much faster than decoding. A character may continue from the previous block, though.
    if decoder.getstate()[0] or not block.isascii():
        _decode(decoder, block, done)


def _by_lines(data: bytes) -> Iterator[bytes]:
    """Halve whole lines recursively until each part has at most `CHUNK_LINES`."""
    if data.count(b"\n") <= CHUNK_LINES:
        yield data
        return
    cut = data.rfind(b"\n", 0, len(data) // 2) + 1 or data.find(b"\n") + 1
    yield from _by_lines(data[:cut])
    yield from _by_lines(data[cut:])


def _check_lines(data: bytes, limit: int) -> None:
    """Check the length of lines by jumping to the last line end within the limit: few steps even for many lines."""
    start = 0
    while len(data) - start > limit:
        end = data.rfind(b"\n", start, start + limit + 1)
        if end < 0:
            raise UnreadableFileError(f"the file has a line of more than {in_bytes(limit)}, which is its limit")
        start = end + 1


def in_bytes(count: int) -> str:
    """Return a size as text for reasons."""
    return f"{count // _MIB:,} MiB" if count >= _MIB else f"{count:,} bytes"


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, done: int, *, final: bool = False) -> None:
    # Bytes of an incomplete character that the decoder kept from the previous block: the error's position counts them.
    held = len(decoder.getstate()[0])
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError as error:
        raise UnreadableFileError(
            f"the file is not UTF-8: {error.reason} at byte {done - held + error.start}"
        ) from None


def row_sizes(column: pa.Array) -> Lines:
    """Return the bytes of each row's value. Dictionary values are counted in each row."""
    import pyarrow.compute as pc  # noqa: PLC0415 - takes 50 ms

    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if isinstance(column, pa.DictionaryArray):
        of_value = row_sizes(column.dictionary)
        return of_value[column.indices.fill_null(0).to_numpy(zero_copy_only=False)] if len(of_value) else _none(column)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return pc.call_function("binary_length", [column]).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        # `values` has those before and after a slice too; the offsets select the slice's own.
        offsets = column.offsets.to_numpy()
        values = column.keys if types.is_map(kind) else column.values
        inner = row_sizes(values) + row_sizes(column.items) if types.is_map(kind) else row_sizes(values)
        sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(inner)])
        return sums[offsets[1:]] - sums[offsets[:-1]]
    if types.is_struct(kind):
        return sum((row_sizes(field) for field in column.flatten()), _none(column))
    return _none(column) + 8  # numbers and times; larger fixed-size values are bounded by their pages


def _none(column: pa.Array) -> Lines:
    return np.zeros(len(column), dtype=np.int64)
