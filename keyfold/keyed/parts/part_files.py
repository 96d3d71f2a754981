"""Write and read parts: sorted rows of state as Parquet, of which a reader fetches only the row groups that it needs.

A part of waiting rows is an Arrow file instead: it is written once and read for a few keys at a time, whose rows can be looked
up without decoding the others. Its checksum is in its name.
"""

import base64
import io
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from keyfold.errors import Damaged
from keyfold.keyed.calling.slots import SLOT, Slots, positions_of
from keyfold.keyed.job.clock import DEADLINE, STALE_AT
from keyfold.keyed.parts.manifest import NEVER, Part
from keyfold.lakehouse.checksums import checksum_in_name, checksum_of_bytes, name_with_checksum
from keyfold.lakehouse.files import new_file, open_for_reading
from keyfold.storage.place import Place, local_path

MARK = "#mark"
"""Column with a row's effect on rows of its slot in older parts."""

REPLACES, ADDS, GONE = 0, 1, 2
"""The row replaces them; the row is added to them; the slot has no rows any more."""

PARQUET, ARROW = ".parquet", ".arrow"

_STARTS = b"keyfold.starts"
_IDENTITY = b"keyfold.part"
_FIRST_ROW = b"keyfold.first"
_TIMERS = (DEADLINE, STALE_AT)


@dataclass(frozen=True)
class Sizes:
    """Sizes of parts, which do not change any result.

    Attributes:
        rows_a_group: rows of a Parquet row group, the smallest unit of reading.
        rows_a_segment: approximate rows of a file of the base.
        inline_bytes: largest part that is stored in the manifest.
        small_bytes: largest state that is rewritten in each batch.
    """

    rows_a_group: int = 2_048
    rows_a_segment: int = 262_144
    inline_bytes: int = 64 << 10
    small_bytes: int = 256 << 10


SIZES = Sizes()


def write_part(rows: pl.DataFrame, batch: int, folder: Place, sizes: Sizes = SIZES, ending: str = PARQUET) -> Part:
    """Write rows as a part, durably.

    Args:
        rows: at least one row, with the columns of state, `SLOT` and `MARK`; sorted by `SLOT`.
        batch: the batch that makes it.
        folder: folder of the parts.
        sizes: sizes of parts.
        ending: suffix of the file, which selects its format.

    Raises:
        OSError: the disk is full or fails.
    """
    slots = rows[SLOT].to_numpy()
    identity = f"{batch:09d}-{uuid.uuid4().hex}"
    content = _as_arrow(rows) if ending == ARROW else _as_parquet(rows, slots, identity, sizes)
    deadline, stale_at = earliest_timers(rows)
    part = Part(batch, rows.height, _different(slots), int(slots[0]), len(content), deadline, stale_at)
    if len(content) <= sizes.inline_bytes:
        return replace(part, payload=content)
    path = folder / f"{identity}{ending}"
    named: list[str] = []

    def name(file: Any) -> str:
        named.append(name_with_checksum(Path(path.name), file))
        return named[0]

    with new_file(path, name) as file:
        file.write(content)
    return replace(part, file=named[0])


def _as_parquet(rows: pl.DataFrame, slots: np.ndarray, identity: str, sizes: Sizes) -> bytes:
    table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
    starts = base64.b64encode(np.ascontiguousarray(slots[:: sizes.rows_a_group]).tobytes())
    table = table.replace_schema_metadata({_STARTS: starts, _IDENTITY: identity.encode()})
    buffer = io.BytesIO()
    # No dictionaries, since keys differ from row to row. Page checksums, since state is kept for years.
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


def _as_arrow(rows: pl.DataFrame) -> bytes:
    # Many columns of waiting rows have the same value, or NULL, in all rows: store it once.
    alike = [column.name for column in rows if column.name != SLOT and _has_one_value(column)]
    table = rows.drop(alike).to_arrow(compat_level=pl.CompatLevel.oldest())
    first = io.BytesIO()
    _write_table(rows.head(1).to_arrow(compat_level=pl.CompatLevel.oldest()), first)
    content = io.BytesIO()
    _write_table(table.replace_schema_metadata({_FIRST_ROW: base64.b64encode(first.getvalue())}), content)
    return content.getvalue()


def _write_table(table: pa.Table, file: io.BytesIO) -> None:
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _read_table(content: Any) -> pa.Table:
    return pa.ipc.open_file(pa.py_buffer(content)).read_all()


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table.replace_schema_metadata())
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union of frame and series
    return frame


def _has_one_value(column: pl.Series) -> bool:
    if column.null_count() == column.len():
        return True
    # Floats are excluded since 0.0 equals -0.0, which would lose the sign.
    if column.null_count() or column.dtype.is_float() or column.dtype.is_nested():
        return False
    first = column.first()
    # Compare the last value first: for most columns it differs.
    return column.last() == first and bool((column == first).all())


def earliest_timers(rows: pl.DataFrame) -> tuple[int, int]:
    """Return the earliest deadline and stale_at of rows, in microseconds; `NEVER` without one."""
    found = (rows[column].to_physical().min() if column in rows.columns else None for column in _TIMERS)
    deadline, stale_at = (NEVER if one is None else int(one) for one in found)  # type: ignore[arg-type]
    return deadline, stale_at


class Rows:
    """Rows that are not written yet, with the interface of a part.

    Attributes:
        frame: the rows, sorted by `SLOT`, with `MARK`.
        starts: first slots of its groups of rows.
    """

    def __init__(self, frame: pl.DataFrame, sizes: Sizes = SIZES) -> None:
        self.frame = frame
        self._slots = frame[SLOT].to_numpy()
        self.starts: Slots = self._slots[:: sizes.rows_a_group]

    def between(self, begin: int, end: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """As `PartFile.between`."""
        first, last = np.searchsorted(self._slots, np.array([begin, end], np.uint64))
        rows = self.frame.slice(int(first), int(last - first))
        return rows if columns is None else rows.select(columns)

    def of(self, slots: Slots, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """As `PartFile.of`."""
        rows = self.frame if columns is None else self.frame.select(columns)
        return _at(rows, positions_of(self._slots, slots))


def open_part(part: Part, folder: Place) -> "PartFile | ArrowPart":
    """Open a written part of either format."""
    is_arrow = part.file.endswith(ARROW) if part.file else part.payload.startswith(b"ARROW1")
    return ArrowPart(part, folder) if is_arrow else PartFile(part, folder)


class ArrowPart:
    """A written part of waiting rows, with the interface of `PartFile`.

    Args:
        part: the part in the manifest.
        folder: folder of the parts.

    Raises:
        Damaged: on any use, if the file is missing, damaged or another one.
    """

    def __init__(self, part: Part, folder: Place) -> None:
        self._part, self._folder = part, folder

    @property
    def starts(self) -> Slots:
        """As `Rows.starts`."""
        return self._content[0].starts

    def between(self, begin: int, end: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """As `PartFile.between`."""
        rows, first = self._content
        return _filled(rows.between(begin, end), first, columns)

    def of(self, slots: Slots, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """As `PartFile.of`."""
        rows, first = self._content
        return _filled(rows.of(slots), first, columns)

    @cached_property
    def _content(self) -> tuple[Rows, pl.DataFrame]:
        """The rows without columns that have the same value in all rows, and the first row with all columns."""
        try:
            table = _read_table(self._bytes())
            first = _read_table(base64.b64decode(table.schema.metadata[_FIRST_ROW]))
        except FileNotFoundError:
            raise _damaged(self._part, self._folder, "it is missing") from None
        except (OSError, pa.ArrowException) as error:
            raise _damaged(self._part, self._folder, str(error)) from error
        return Rows(_frame(table)), _frame(first)

    def _bytes(self) -> Any:
        part = self._part
        if not part.file:
            return part.payload
        path = self._folder / part.file
        local = local_path(path)
        content = pa.memory_map(str(local)).read_buffer() if local else path.read_bytes()
        if len(content) != part.size:
            raise _damaged(part, self._folder, f"it has {len(content):,} bytes and should have {part.size:,}")
        if checksum_of_bytes(content) != checksum_in_name(part.file):
            raise _damaged(part, self._folder, "its checksum is not the one that its name says")
        return content


class PartFile:
    """A written part, of which only the needed row groups are read.

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
        wanted = np.zeros(len(self.starts) + 1, np.int64)
        np.add.at(wanted, first, 1)
        np.add.at(wanted, last, -1)
        rows = self._read(np.flatnonzero(np.cumsum(wanted)[:-1] > 0), columns)
        return _at(rows, positions_of(rows[SLOT].to_numpy(), slots))

    def _span(self, begin: int, last: int) -> tuple[int, int]:
        """Return the range of row groups with the slots from `begin` to `last`; the end is exclusive."""
        first = np.searchsorted(self.starts, np.uint64(begin), side="left") - 1
        return max(int(first), 0), int(np.searchsorted(self.starts, np.uint64(last), side="right"))

    def _read(self, groups: np.ndarray, columns: Sequence[str] | None) -> pl.DataFrame:
        wanted = None if columns is None else list(columns)
        try:
            table = self._file.read_row_groups([int(one) for one in groups], columns=wanted, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise _damaged(self._part, self._folder, str(error)) from error
        frame = _frame(table)
        return frame if wanted is None else frame.select(wanted)

    @cached_property
    def _file(self) -> pq.ParquetFile:
        part, options = self._part, {"page_checksum_verification": True, "pre_buffer": False}
        try:
            if not part.file:
                return pq.ParquetFile(pa.BufferReader(part.payload), **options)
            path = self._folder / part.file
            size = path.stat().st_size
            if size != part.size:
                raise _damaged(self._part, self._folder, f"it has {size:,} bytes and should have {part.size:,}")
            local = local_path(path)
            file = pq.ParquetFile(local or open_for_reading(path), memory_map=local is not None, **options)
            identity = (file.schema_arrow.metadata or {}).get(_IDENTITY, b"").decode()
        except FileNotFoundError:
            raise _damaged(self._part, self._folder, "it is missing") from None
        except (OSError, pa.ArrowException) as error:
            raise _damaged(self._part, self._folder, str(error)) from error
        if not part.file.startswith(f"{identity}_"):
            raise _damaged(self._part, self._folder, "it is another part, under this one's name")
        return file


def _filled(rows: pl.DataFrame, first: pl.DataFrame, columns: Sequence[str] | None) -> pl.DataFrame:
    alike = [one.new_from_index(0, rows.height) for one in first if one.name not in rows.columns]
    return rows.hstack(alike).select(first.columns if columns is None else columns)


def _damaged(part: Part, folder: Place, what: str) -> Damaged:
    name = folder / part.file if part.file else "a part in the manifest"
    return Damaged(f"{name}, a part of the state, cannot be used: {what}")


def _at(rows: pl.DataFrame, positions: np.ndarray) -> pl.DataFrame:
    # A contiguous range is a slice, which copies nothing.
    if not positions.size or positions[-1] - positions[0] + 1 == positions.size:
        return rows.slice(int(positions[0]) if positions.size else 0, positions.size)
    return rows[positions]


def _different(slots: np.ndarray) -> int:
    return int(np.count_nonzero(np.diff(slots)) + 1)
