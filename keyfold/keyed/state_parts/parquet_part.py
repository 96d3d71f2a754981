"""Write parts as Parquet, and read of them only the row groups that are needed."""

import base64
import io
import re
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import IO, TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.errors import Damaged
from keyfold.keyed.calling.slots import SLOT, Slots, positions_of
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.keyed.state_parts.manifest import NEVER, Part
from keyfold.keyed.state_parts.part_rows import SIZES, Sizes, rows_at
from keyfold.storage.place import Place

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_STARTS = b"keyfold.starts"
_IDENTITY = b"keyfold.part"
_TAIL = 64 << 10
"""Bytes at the end of a file that are read first. Most footers are shorter."""
_ENDING = 8
"""Bytes behind a footer: its length, and Parquet's mark."""
_CHECKSUM_OF_FOOTER = re.compile(r"_([0-9a-f]{8})\.parquet$")


def write_part(rows: pl.DataFrame, batch: int, folder: Place, sizes: Sizes = SIZES) -> Part:
    """Write rows as a part, durably.

    Args:
        rows: at least one row, with the columns of state, `SLOT` and `MARK`; sorted by `SLOT`.
        batch: the batch that makes it.
        folder: folder of the parts.
        sizes: sizes of parts.

    Raises:
        OSError: the disk is full or fails.
    """
    slots = rows[SLOT].to_numpy()
    identity = f"{batch:09d}-{uuid.uuid4().hex}"
    content = _content(rows, slots, identity, sizes)
    different = int(np.count_nonzero(np.diff(slots)) + 1)
    part = Part(batch, rows.height, different, int(slots[0]), len(content), *earliest_timers(rows))
    if len(content) <= sizes.inline_bytes:
        return replace(part, payload=content)
    # Parquet has checksums of pages alone: the name has that of the footer.
    name = f"{identity}_{zlib.crc32(content[-_ENDING - _length(content) :]):08x}.parquet"
    with (folder / name).new_file() as file:
        file.write(content)
    return replace(part, file=name)


def earliest_timers(rows: pl.DataFrame) -> tuple[int, int]:
    """Return the earliest deadline and processing_deadline of rows, in microseconds; `NEVER` without one."""
    times = [
        rows[column].to_physical().min() if column in rows.columns else None
        for column in (DEADLINE, PROCESSING_DEADLINE)
    ]
    deadline, processing_deadline = (NEVER if time is None else int(time) for time in times)  # type: ignore[arg-type]
    return deadline, processing_deadline


def _content(rows: pl.DataFrame, slots: np.ndarray, identity: str, sizes: Sizes) -> bytes:
    """Encode the rows of a part, with the first slots of its row groups and its identity."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes 0.1 s

    table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
    starts = base64.b64encode(np.ascontiguousarray(slots[:: sizes.rows_a_group]).tobytes())
    table = table.replace_schema_metadata({_STARTS: starts, _IDENTITY: identity.encode()})
    buffer = io.BytesIO()
    # No dictionaries, since keys differ from row to row. No statistics: readers find row groups by `_STARTS`. Page checksums,
    # since state is kept for years.
    pq.write_table(
        table,
        buffer,
        row_group_size=sizes.rows_a_group,
        compression="lz4",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    return buffer.getvalue()


def _length(content: bytes) -> int:
    return int.from_bytes(content[-_ENDING : -_ENDING // 2], "little")


class ParquetPart:
    """A written part, in a file or in the manifest, of which only the needed row groups are read.

    Args:
        part: the part in the manifest.
        folder: folder of the parts.

    Raises:
        Damaged: on any use, if the file is missing, damaged or another one.
    """

    def __init__(self, part: Part, folder: Place) -> None:
        self._part, self._folder = part, folder

    @cached_property
    def starts(self) -> Slots:
        """The first slots of its row groups."""
        return np.frombuffer(base64.b64decode(self._file.schema_arrow.metadata[_STARTS]), np.uint64)

    def between(self, begin: int, end: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows of slots from `begin` to before `end`, sorted by slot, with all columns or the named ones."""
        first, last = self._span(begin, end - 1)
        rows = self._read(np.arange(first, last), columns)
        slots = rows[SLOT].to_numpy()
        low, high = np.searchsorted(slots, np.array([begin, end], np.uint64))
        return rows.slice(int(low), int(high - low))

    def of(self, slots: Slots, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows of some slots, sorted by slot, with all columns or the named ones."""
        if not slots.size:
            return self._read(np.arange(0), columns)
        # The rows of a slot may begin in the previous row group, and continue in the next ones.
        first = np.maximum(np.searchsorted(self.starts, slots, side="left") - 1, 0)
        last = np.searchsorted(self.starts, slots, side="right")
        # The union of these ranges: one more where a range begins, and one less where it ends.
        wanted = np.zeros(len(self.starts) + 1, np.int64)
        np.add.at(wanted, first, 1)
        np.add.at(wanted, last, -1)
        rows = self._read(np.flatnonzero(np.cumsum(wanted)[:-1] > 0), columns)
        return rows_at(rows, positions_of(rows[SLOT].to_numpy(), slots))

    def _span(self, begin: int, last: int) -> tuple[int, int]:
        """Return the range of row groups with the slots from `begin` to `last`; the end is exclusive."""
        first = np.searchsorted(self.starts, np.uint64(begin), side="left") - 1
        return max(int(first), 0), int(np.searchsorted(self.starts, np.uint64(last), side="right"))

    def _read(self, groups: np.ndarray, columns: Sequence[str] | None) -> pl.DataFrame:
        wanted = None if columns is None else list(columns)
        try:
            table = self._file.read_row_groups([int(group) for group in groups], columns=wanted, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(str(error)) from error
        frame = pl.from_arrow(table.replace_schema_metadata())
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union of frame and series
        return frame if wanted is None else frame.select(wanted)

    @cached_property
    def _file(self) -> "pq.ParquetFile":
        import pyarrow.parquet as pq  # noqa: PLC0415 - takes 0.1 s

        part, options = self._part, {"page_checksum_verification": True, "pre_buffer": False}
        try:
            if not part.file:
                return pq.ParquetFile(pa.BufferReader(part.payload), **options)
            path = self._folder / part.file
            size = path.stat().st_size
            if size != part.size:
                raise self._damaged(f"it has {size:,} bytes and should have {part.size:,}")
            local = path.local_path
            source = pa.memory_map(str(local)) if local else path.open_for_reading()
            metadata = pq.read_metadata(pa.BufferReader(self._footer(source)))
            file = pq.ParquetFile(source, metadata=metadata, **options)
            identity = (file.schema_arrow.metadata or {}).get(_IDENTITY, b"").decode(errors="replace")
        except FileNotFoundError:
            raise self._damaged("it is missing") from None
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(str(error)) from error
        # A file that was copied over another one is intact: page checksums do not show it.
        if not part.file.startswith(f"{identity}_"):
            raise self._damaged("it is another part, under this one's name")
        return file

    def _footer(self, source: IO[bytes] | pa.NativeFile) -> bytes:
        """Read the footer, and verify its checksum, which the file's name has."""
        read = min(_TAIL, self._part.size)
        source.seek(self._part.size - read)
        tail = source.read()
        if read < (needed := min(_length(tail) + _ENDING, self._part.size)):
            source.seek(self._part.size - needed)
            tail = source.read()
        footer = tail[-_ENDING - _length(tail) :]
        wanted = _CHECKSUM_OF_FOOTER.search(self._part.file)
        if not wanted or f"{zlib.crc32(footer):08x}" != wanted[1]:
            raise self._damaged("the checksum of its footer is another one")
        return footer

    def _damaged(self, damage: str) -> Damaged:
        name = self._folder / self._part.file if self._part.file else "a part in the manifest"
        return Damaged(f"{name}, a part of the state, cannot be used: {damage}")
