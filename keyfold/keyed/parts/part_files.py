"""One part: sorted rows of state as Parquet, of which a reader fetches the row groups that hold the slots it wants."""

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
from keyfold.lakehouse.checksums import name_with_checksum
from keyfold.lakehouse.files import new_file, open_for_reading
from keyfold.storage.place import Place

MARK = "#mark"
"""The column that says what a row is to rows of its slot in older parts."""

REPLACES, ADDS, GONE = 0, 1, 2
"""A row in their place; a row besides them; no row, but the mark that there are none of them any more."""

_STARTS = b"keyfold.starts"
_IDENTITY = b"keyfold.part"
_TIMERS = (DEADLINE, STALE_AT)


@dataclass(frozen=True)
class Sizes:
    """How large parts are; results do not depend on any of them.

    Attributes:
        rows_a_group: of a Parquet row group, the least that is read.
        rows_a_segment: of a file of the base, about.
        inline_bytes: up to which size a part lies in the manifest.
        small_bytes: up to which size a state is written anew each time.
    """

    rows_a_group: int = 2_048
    rows_a_segment: int = 262_144
    inline_bytes: int = 64 << 10
    small_bytes: int = 256 << 10


SIZES = Sizes()


def write_part(rows: pl.DataFrame, batch: int, folder: Place, sizes: Sizes = SIZES) -> Part:
    """Write rows as a part, durably.

    Args:
        rows: one at least, with the columns of state, `SLOT` and `MARK`; sorted by `SLOT`.
        batch: that makes it.
        folder: of parts.
        sizes: how large parts are.

    Raises:
        OSError: the disk is full or fails.
    """
    slots = rows[SLOT].to_numpy()
    identity = f"{batch:09d}-{uuid.uuid4().hex}"
    table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
    starts = base64.b64encode(np.ascontiguousarray(slots[:: sizes.rows_a_group]).tobytes())
    table = table.replace_schema_metadata({_STARTS: starts, _IDENTITY: identity.encode()})
    buffer = io.BytesIO()
    # No dictionaries: keys differ from row to row. Page checksums, since state is read for years.
    pq.write_table(
        table,
        buffer,
        row_group_size=sizes.rows_a_group,
        compression="lz4",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    content = buffer.getvalue()
    deadline, stale_at = earliest_timers(rows)
    part = Part(batch, rows.height, _different(slots), int(slots[0]), len(content), deadline, stale_at)
    if len(content) <= sizes.inline_bytes:
        return replace(part, payload=content)
    path = folder / f"{identity}.parquet"
    named: list[str] = []

    def name(file: Any) -> str:
        named.append(name_with_checksum(Path(path.name), file))
        return named[0]

    with new_file(path, name) as file:
        file.write(content)
    return replace(part, file=named[0])


def earliest_timers(rows: pl.DataFrame) -> tuple[int, int]:
    """The earliest deadline and stale_at of rows, in microseconds; `NEVER` where there is none."""
    found = (rows[column].to_physical().min() if column in rows.columns else None for column in _TIMERS)
    deadline, stale_at = (NEVER if one is None else int(one) for one in found)  # type: ignore[arg-type]
    return deadline, stale_at


class Rows:
    """Rows that are not written yet, read as a part is.

    Attributes:
        frame: the rows, sorted by `SLOT`, with `MARK`.
        starts: the slots that its groups of rows begin with.
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


class PartFile:
    """A written part, of which is read what is asked for.

    Args:
        part: as the manifest has it.
        folder: of parts.

    Raises:
        Damaged: on any use: the file is gone, is another one, or its content is not what was written.
    """

    def __init__(self, part: Part, folder: Place) -> None:
        self._part, self._folder = part, folder

    @cached_property
    def starts(self) -> Slots:
        """The slots that its row groups begin with."""
        return np.frombuffer(base64.b64decode(self._file.schema_arrow.metadata[_STARTS]), np.uint64)

    def between(self, begin: int, end: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows of the slots from `begin` to before `end`, by slot; with some columns alone if they are named."""
        first, last = self._span(begin, end - 1)
        rows = self._read(np.arange(first, last), columns)
        slots = rows[SLOT].to_numpy()
        low, high = np.searchsorted(slots, np.array([begin, end], np.uint64))
        return rows.slice(int(low), int(high - low))

    def of(self, slots: Slots, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows of some slots, by slot; with some columns alone if they are named."""
        if not slots.size:
            return self._read(np.arange(0), columns)
        # A slot's rows may begin in the row group before, and go on in the ones behind.
        first = np.maximum(np.searchsorted(self.starts, slots, side="left") - 1, 0)
        last = np.searchsorted(self.starts, slots, side="right")
        wanted = np.zeros(len(self.starts) + 1, np.int64)
        np.add.at(wanted, first, 1)
        np.add.at(wanted, last, -1)
        rows = self._read(np.flatnonzero(np.cumsum(wanted)[:-1] > 0), columns)
        return _at(rows, positions_of(rows[SLOT].to_numpy(), slots))

    def _span(self, begin: int, last: int) -> tuple[int, int]:
        """From which row group on, and to before which, the slots from `begin` to `last` lie."""
        first = np.searchsorted(self.starts, np.uint64(begin), side="left") - 1
        return max(int(first), 0), int(np.searchsorted(self.starts, np.uint64(last), side="right"))

    def _read(self, groups: np.ndarray, columns: Sequence[str] | None) -> pl.DataFrame:
        wanted = None if columns is None else list(columns)
        try:
            table = self._file.read_row_groups([int(one) for one in groups], columns=wanted, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(str(error)) from error
        frame = pl.from_arrow(table.replace_schema_metadata())
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union of frame and series
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
                raise self._damaged(f"it has {size:,} bytes and should have {part.size:,}")
            if isinstance(path, Path):
                file = pq.ParquetFile(path, memory_map=True, **options)
            else:
                file = pq.ParquetFile(open_for_reading(path), **options)
            identity = (file.schema_arrow.metadata or {}).get(_IDENTITY, b"").decode()
        except FileNotFoundError:
            raise self._damaged("it is missing") from None
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(str(error)) from error
        if not part.file.startswith(f"{identity}_"):
            raise self._damaged("it is another part, under this one's name")
        return file

    def _damaged(self, what: str) -> Damaged:
        name = self._folder / self._part.file if self._part.file else "a part in the manifest"
        return Damaged(f"{name}, a part of the state, cannot be used: {what}")


def _at(rows: pl.DataFrame, positions: np.ndarray) -> pl.DataFrame:
    # Where all keys of a range are wanted, nothing is copied.
    if not positions.size or positions[-1] - positions[0] + 1 == positions.size:
        return rows.slice(int(positions[0]) if positions.size else 0, positions.size)
    return rows[positions]


def _different(slots: np.ndarray) -> int:
    return int(np.count_nonzero(np.diff(slots)) + 1)
