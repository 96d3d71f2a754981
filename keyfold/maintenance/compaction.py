"""Compact a table: merge its small files; for an event table, merge neighbours in time.

Jobs read slices of event time, and read a file once for each slice that it overlaps. Delta's own OPTIMIZE merges files in any
order, so that the merged files overlap in time as before. So the merged files are written here, as batches write theirs.
"""

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from keyfold.keyed.plans.slices import Slice, cut, cuts_through
from keyfold.keyed.rows.codec import polars_schema
from keyfold.lakehouse.commits import replace_files
from keyfold.lakehouse.data_files import WrittenFile, leaf_of, write_data_file, write_rows
from keyfold.lakehouse.log_changes import DataFile, check_plain, snapshot
from keyfold.lakehouse.reading import parquet_file, scan_in_columns, scan_parquet
from keyfold.storage.place import Place
from keyfold.times import from_micros

_TARGET = 100 << 20
"""Target bytes of a merged file, unless the table sets `delta.targetFileSize`: Delta's default for OPTIMIZE."""

_MOST_AT_ONCE = 16
"""Maximum size of one commit, in files of the target size."""

_FEWER = 2
"""Files are merged only if their number falls by this factor. Otherwise each run would rewrite the newest files."""

_SCATTERED = 2.0
"""Files are rewritten in order of time if reading them slice by slice opens each more often than this."""


def compact(table: Place, time: str | None = None) -> None:
    """Merge a table's small files.

    Args:
        table: an existing Delta table.
        time: the column of times of an event table, by which its files are ordered.
    """
    delta = DeltaTable(str(table))
    target = int(delta.metadata().configuration.get("delta.targetFileSize", _TARGET))
    schema = pa.schema(delta.schema().to_arrow())
    if time is None:
        check_plain(delta, table)
        for group in _small_ones(delta, table, target):
            written = write_rows(scan_in_columns([table / file.path for file in group], schema), table, schema)
            replace_files(table, group, [written] if written.rows else [])
        return
    for group in _groups(snapshot(table, time).files, target):
        # Cut as jobs cut their slices, so that each merged file is read once.
        slices = cut(group, target)
        if _FEWER * len(slices) <= len(group) or cuts_through(slices) > _SCATTERED:
            written = [_write(table, one, time, schema) for one in slices]
            replace_files(table, group, [one for one in written if one.rows])


def _small_ones(delta: DeltaTable, table: Place, target: int) -> Iterator[list[DataFile]]:
    """Group files below the target size, smallest first, so that large ones need not be rewritten."""
    actions = delta.get_add_actions()
    columns = (actions[name].to_pylist() for name in ("path", "size_bytes", "num_records"))
    small = sorted(
        (size, unquote(path), rows)
        for path, size, rows in zip(*columns, strict=True)
        # Leaves are small on purpose.
        if size < target and leaf_of(path) is None
    )
    group: list[DataFile] = []
    total = 0
    for size, path, rows in small:
        if total + size > target and group:
            if len(group) > 1:
                yield group
            group, total = [], 0
        # Other writers may leave the number of rows out of the log.
        group.append(DataFile(path, _count(table / path) if rows is None else rows, size, None, None))
        total += size
    if len(group) > 1:
        yield group


def _count(file: Place) -> int:
    with parquet_file(file) as opened:
        return opened.metadata.num_rows


def _groups(files: Sequence[DataFile], target: int) -> Iterator[list[DataFile]]:
    """Group files in order of time, each group of at least the target size. Groups end between files if possible."""
    group: list[DataFile] = []
    size, last = 0, 0
    for file in sorted((file for file in files if file.rows), key=_by_time):
        first, end = _span(file)
        # End the group at the target size if this file begins after all others end; else at a multiple of it.
        if group and (size >= _MOST_AT_ONCE * target or (size >= target and first > last)):
            yield group
            group, size, last = [], 0, 0
        group.append(file)
        size, last = size + file.bytes, max(last, end) if len(group) > 1 else end
    if group:
        yield group


def _write(table: Place, one: Slice, time: str, schema: pa.Schema) -> WrittenFile:
    """Write the rows of a slice as one file, in order of time."""
    frames: list[pl.DataFrame] = []
    for file, whole in one.files:
        rows = scan_parquet(table / file.path)
        rows = rows if whole else rows.filter(_is_within(one, time))
        frames.append(rows.select(_columns(rows.collect_schema().names(), schema)).collect())
    return write_data_file(pl.concat(frames, rechunk=False).sort(time, maintain_order=True), table, schema)


def _columns(there: Sequence[str], schema: pa.Schema) -> Iterator[pl.Expr]:
    """The table's columns, for a file; columns that were added to the table later are NULL."""
    for name, kind in polars_schema(schema).items():
        yield pl.col(name).cast(kind) if name in there else pl.lit(None, kind).alias(name)


def _is_within(one: Slice, time: str) -> pl.Expr:
    is_within = pl.lit(True)
    if one.since is not None:
        is_within &= pl.col(time) >= pl.lit(from_micros(one.since))
    if one.until is not None:
        is_within &= pl.col(time) < pl.lit(from_micros(one.until))
    return is_within


def _by_time(file: DataFile) -> tuple[int, int, str]:
    return (*_span(file), file.path)


def _span(file: DataFile) -> tuple[int, int]:
    assert file.first is not None and file.last is not None  # noqa: S101, PT018 - a file with rows has times
    return file.first, file.last
