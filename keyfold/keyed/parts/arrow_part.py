"""Parts of waiting rows as Arrow files: written once, and read for a few keys at a time without decoding the other rows.

The checksum of a file is in its name.
"""

import base64
import io
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.keyed.calling.slots import SLOT, Slots
from keyfold.keyed.parts.part_rows import Rows, WrittenPart, frame_of
from keyfold.lakehouse.checksums import checksum_in_name, checksum_of_bytes
from keyfold.storage.place import local_path

_FIRST_ROW = b"keyfold.first"


def arrow_content(rows: pl.DataFrame) -> bytes:
    """Encode the rows of a part."""
    # Many columns of waiting rows have the same value, or NULL, in all rows: store it once.
    alike = [column.name for column in rows if column.name != SLOT and _has_one_value(column)]
    table = rows.drop(alike).to_arrow(compat_level=pl.CompatLevel.oldest())
    first = io.BytesIO()
    _write_table(rows.head(1).to_arrow(compat_level=pl.CompatLevel.oldest()), first)
    content = io.BytesIO()
    _write_table(table.replace_schema_metadata({_FIRST_ROW: base64.b64encode(first.getvalue())}), content)
    return content.getvalue()


class ArrowPart(WrittenPart):
    """A written part of waiting rows, with the interface of `ParquetPart`."""

    @property
    def starts(self) -> Slots:
        """As `Rows.starts`."""
        return self._content[0].starts

    def between(self, begin: int, end: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """As `ParquetPart.between`."""
        rows, first = self._content
        return _filled(rows.between(begin, end), first, columns)

    def of(self, slots: Slots, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """As `ParquetPart.of`."""
        rows, first = self._content
        return _filled(rows.of(slots), first, columns)

    @cached_property
    def _content(self) -> tuple[Rows, pl.DataFrame]:
        """The rows without columns that have the same value in all rows, and the first row with all columns."""
        try:
            table = _read_table(self._bytes())
            first = _read_table(base64.b64decode(table.schema.metadata[_FIRST_ROW]))
        except FileNotFoundError:
            raise self._damaged("it is missing") from None
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(str(error)) from error
        return Rows(frame_of(table)), frame_of(first)

    def _bytes(self) -> Any:
        part = self._part
        if not part.file:
            return part.payload
        path = self._folder / part.file
        local = local_path(path)
        content = pa.memory_map(str(local)).read_buffer() if local else path.read_bytes()
        if len(content) != part.size:
            raise self._damaged(f"it has {len(content):,} bytes and should have {part.size:,}")
        if checksum_of_bytes(content) != checksum_in_name(part.file):
            raise self._damaged("its checksum differs from the one in its name")
        return content


def _write_table(table: pa.Table, file: io.BytesIO) -> None:
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _read_table(content: Any) -> pa.Table:
    return pa.ipc.open_file(pa.py_buffer(content)).read_all()


def _has_one_value(column: pl.Series) -> bool:
    if column.null_count() == column.len():
        return True
    # Floats are excluded since 0.0 equals -0.0, which would lose the sign.
    if column.null_count() or column.dtype.is_float() or column.dtype.is_nested():
        return False
    first = column.first()
    # Compare the last value first: for most columns it differs.
    return column.last() == first and bool((column == first).all())


def _filled(rows: pl.DataFrame, first: pl.DataFrame, columns: Sequence[str] | None) -> pl.DataFrame:
    alike = [one.new_from_index(0, rows.height) for one in first if one.name not in rows.columns]
    return rows.hstack(alike).select(first.columns if columns is None else columns)
