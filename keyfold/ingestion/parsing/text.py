"""Tell formats by the names of files, open text files, decompress them, check their encoding, and cut them into chunks of whole lines.

A file may turn out to be broken at its end. Callers must discard all chunks of a file that raises an error.
"""

import codecs
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.child import WorkFailedError
from keyfold.storage.place import Place

CHUNK = 16 << 20
"""Maximum bytes of text that are parsed at once."""

CHUNK_LINES = 1 << 17
"""Maximum lines that are parsed at once, since even short lines cost memory."""

_MIB = 1 << 20
_NEWLINE = ord("\n")


_FIRST_BYTES = 1 << 18
"""Bytes of the first block that is read, so that a small file takes little memory; later blocks are larger."""

FIRST_LINES = 12_000
"""Most lines of a file's first chunk, so that little of a file is parsed before its beginning is judged (`beginning`)."""


class UnreadableFileError(WorkFailedError):
    """A file that goes to quarantine as a whole; the message is the reason.

    Attributes:
        sample: some of its refused lines; empty if it has none.
    """

    def __init__(self, reason: str, sample: str = "") -> None:
        super().__init__(reason)
        self.sample = sample


def read_chunks(
    path: Place, landing: Place | None = None, *, max_line: int, max_bytes: int, encoding: str = "utf-8"
) -> Iterator[bytearray]:
    """Read the chunks of a text file, in UTF-8, decompressed if its name ends in .gz; see `open_text` and `chunks`.

    Raises:
        OSError, EOFError, zlib.error: the file cannot be read or decompressed.
    """
    with open_text(path, landing, encoding) as source:
        yield from chunks(source, max_line=max_line, max_bytes=max_bytes)


def chunks(
    source: IO[bytes], size: int = CHUNK, *, max_line: int = CHUNK, max_bytes: int = 1 << 40
) -> Iterator[bytearray]:
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
    rest, bytes_before, is_begun, has_first = bytearray(), 0, False, False
    while True:
        # Read behind the rest of the block before, so that no block is copied.
        data = bytearray(len(rest) + min(size, max(_FIRST_BYTES, 3 * bytes_before)))
        data[: len(rest)] = rest
        with memoryview(data) as whole, whole[len(rest) :] as free:
            read = source.readinto(free)  # pyright: ignore[reportAttributeAccessIssue] - all files that are read have it
        if not read:
            break
        del data[len(rest) + read :]
        _check(decoder, data, len(rest), bytes_before)
        bytes_before += read
        if bytes_before > max_bytes:
            raise UnreadableFileError(f"the file holds more than {in_bytes(max_bytes)} of text, which is its limit")
        if not is_begun:
            # A read may return fewer bytes than the byte order mark has.
            if len(data) < len(codecs.BOM_UTF8):
                rest = data
                continue
            is_begun = True
            if data.startswith(codecs.BOM_UTF8):
                del data[: len(codecs.BOM_UTF8)]
        _check_lines(data, max_line)
        if not has_first and bytes_before < size and line_ends(data) < FIRST_LINES:
            rest = data
            continue
        cut = data.rfind(b"\n") + 1
        rest = data[cut:]
        if cut:
            del data[cut:]
            if not has_first:
                has_first, first = True, _end_of_line(data, FIRST_LINES)
                yield data[:first]
                del data[:first]
            if data:
                yield from _by_lines(data)
    _decode(decoder, b"", bytes_before, final=True)
    if rest:
        _check_lines(rest, max_line)
        yield rest


def _check(decoder: codecs.IncrementalDecoder, data: bytearray, start: int, bytes_before: int) -> None:
    """Check a block, which was read to the end of `data` from `start` on."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not bytes_before:
        raise UnreadableFileError("the file is not UTF-8 but UTF-16")
    if b"\0" in data:
        raise UnreadableFileError("the file holds NUL bytes: it is binary, or UTF-16")
    # Checking for ASCII is much faster than decoding. A character may continue from the previous block, though.
    if decoder.getstate()[0] or not data.isascii():
        _decode(decoder, data[start:], bytes_before)


def _by_lines(data: bytearray) -> Iterator[bytearray]:
    """Halve whole lines recursively until each part has at most `CHUNK_LINES`."""
    if line_ends(data) <= CHUNK_LINES:
        yield data
        return
    cut = data.rfind(b"\n", 0, len(data) // 2) + 1 or data.find(b"\n") + 1
    yield from _by_lines(data[:cut])
    yield from _by_lines(data[cut:])


def _end_of_line(data: bytearray, number: int) -> int:
    """Return where a line ends; the end of the data if it has fewer."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE)
    return int(ends[number - 1]) + 1 if len(ends) >= number else len(data)


def line_ends(data: bytes | bytearray) -> int:
    """Count the line ends. NumPy takes a quarter of the time of `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == _NEWLINE))


def _check_lines(data: bytearray, limit: int) -> None:
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


def _decode(
    decoder: codecs.IncrementalDecoder, block: bytes | bytearray, bytes_before: int, *, final: bool = False
) -> None:
    # Bytes of an incomplete character that the decoder kept from the previous block: the error's position counts them.
    held = len(decoder.getstate()[0])
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError as error:
        raise UnreadableFileError(
            f"the file is not UTF-8: {error.reason} at byte {bytes_before - held + error.start}"
        ) from None


def row_sizes(column: pa.Array) -> npt.NDArray[np.int64]:
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


def _none(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.zeros(len(column), dtype=np.int64)


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


@contextmanager
def open_text(path: Place, landing: Place | None = None, encoding: str = "utf-8") -> Iterator[IO[bytes]]:
    """Open a text file as UTF-8, and decompress it if its name says that it is compressed.

    Args:
        path: the file.
        landing: the landing folder, which no link may lead out of; None if links may lead anywhere.
        encoding: the encoding of the text. UTF-8 is not checked here, but by `chunks`.

    Raises:
        OSError: the file cannot be read, or a link leads out of the folder.
    """
    with path.open_for_reading(_READ_AHEAD, landing) as file:
        content = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if file_type(path).is_compressed else file
        is_utf8 = codecs.lookup(encoding).name == "utf-8"
        yield content if is_utf8 else io.BufferedReader(_InUtf8(content, encoding), _MIB)


class _InUtf8(io.RawIOBase):
    """A text of another encoding, in UTF-8."""

    def __init__(self, content: IO[bytes], encoding: str) -> None:
        self._content, self._encoding = content, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            # A byte or two become at most three of UTF-8.
            block = self._content.read(max(len(buffer) // 4, 1))
            try:
                text = self._decoder.decode(block, not block).encode()
            except UnicodeError as error:
                raise UnreadableFileError(f"the file is not {self._encoding}: {error}") from None
            if text or not block:
                buffer[: len(text)] = text
                return len(text)
