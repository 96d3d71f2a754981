"""Joins small files of a table; of an event table neighbours in time, so that its files follow one another in time.

Jobs read in slices of event time: a file that spans many of them is read many times. Delta's own OPTIMIZE puts files
together as they come, and the joined ones lie across each other as much as those before. Nor do the names of its files
have a checksum: every joined file is written here, as batches write theirs.
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
from keyfold.lakehouse.parquet import parquet_file, scan_parquet
from keyfold.lakehouse.reading import scan_in_columns
from keyfold.storage.place import Place
from keyfold.times import from_micros

_TARGET = 100 << 20
"""Size of a joined file, where the table does not say `delta.targetFileSize`: Delta's own default for OPTIMIZE."""

_MOST_AT_ONCE = 16
"""Files of the target size that are put in order among themselves in one commit, at most."""

_FEWER = 2
"""Files are joined only where that leaves at most one in so many: else each night would write the newest ones again."""

_SCATTERED = 2.0
"""Files are put in order where reading them slice by slice opens each so many times."""


def join_small_files(table: Place, time: str | None = None) -> None:
    """Join a table's small files.

    Args:
        table: an existing Delta table.
        time: of an event table, the column of times by which its files are put in order.
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
        # The same cuts as jobs make: what is joined along them is read once.
        slices = cut(group, target)
        if _FEWER * len(slices) <= len(group) or cuts_through(slices) > _SCATTERED:
            written = [_write(table, one, time, schema) for one in slices]
            replace_files(table, group, [one for one in written if one.rows])


def _small_ones(delta: DeltaTable, table: Place, target: int) -> Iterator[list[DataFile]]:
    """Files of less than the target size, in groups of at most that; small ones together, so that large ones stay."""
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
    for size, path, told in small:
        if total + size > target and group:
            if len(group) > 1:
                yield group
            group, total = [], 0
        # Other programs need not say how many rows a file has.
        group.append(DataFile(path, _count(table / path) if told is None else told, size, None, None))
        total += size
    if len(group) > 1:
        yield group


def _count(file: Place) -> int:
    with parquet_file(file) as opened:
        return opened.metadata.num_rows


def _groups(files: Sequence[DataFile], target: int) -> Iterator[list[DataFile]]:
    """Files in order of time, in groups of some target size or more that end where no file lies across, if that is soon."""
    group: list[DataFile] = []
    size, last = 0, 0
    for file in sorted((file for file in files if file.rows), key=_by_time):
        first, end = _span(file)
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
    """The table's columns of a file; one that the table got later is NULL in it."""
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
