"""Joins small files of a table; of an event table neighbours in time, so that its files follow one another in time.

Jobs read in slices of event time: a file that spans many of them is read many times. Delta's own OPTIMIZE puts files
together as they come, and the joined ones lie across each other as much as those before.
"""

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from keyfold.keyed.codec import polars_schema
from keyfold.keyed.slices import Slice, cut, cuts_through
from keyfold.lakehouse.changes import DataFile, snapshot
from keyfold.lakehouse.commits import NO_HOOKS, replace_files
from keyfold.lakehouse.data_files import WrittenFile, write_data_file
from keyfold.lakehouse.parquet import scan_parquet
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
    if time is None:
        # One task at a time: a task holds a joined file's rows in memory.
        DeltaTable(str(table)).optimize.compact(max_concurrent_tasks=1, post_commithook_properties=NO_HOOKS)
        return
    delta = DeltaTable(str(table))
    target = int(delta.metadata().configuration.get("delta.targetFileSize", _TARGET))
    schema = pa.schema(delta.schema().to_arrow())
    for group in _groups(snapshot(table, time).files, target):
        # The same cuts as jobs make: what is joined along them is read once.
        slices = cut(group, target)
        if _FEWER * len(slices) <= len(group) or cuts_through(slices) > _SCATTERED:
            written = [_write(table, one, time, schema) for one in slices]
            replace_files(table, group, [one for one in written if one.rows])


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
