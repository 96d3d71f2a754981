"""Rewrite the files of an upsert table for a merge, in this process or in Spark's workers.

Readers do not see the written files until the merge's commit names them.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import polars as pl
import pyarrow as pa

from keyfold.lakehouse.data_files import WrittenFile, write_data_file, write_rows
from keyfold.lakehouse.leaves import HASH, HashOf, divided, is_within, met_by
from keyfold.lakehouse.reading import read_parquet, scan_in_columns
from keyfold.storage.place import Place

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

_WRITERS = 8


@dataclass(frozen=True)
class File:
    """A data file of a table, or a staged one.

    Attributes:
        leaf: see `leaf_of`; None if the file may hold any key.
        is_in_reach: whether it may hold rows of the new keys, by the statistics of the log.
    """

    path: str
    bytes: int
    is_staged: bool = False
    leaf: str | None = None
    is_in_reach: bool = True


@dataclass(frozen=True)
class Together:
    """A task: rewrite files as one, without rows of the new keys. Files without such rows stay."""

    files: tuple[File, ...]

    @property
    def size(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class Shortened:
    """A task: rewrite a leaf without rows of the new keys."""

    leaf: str
    file: File

    @property
    def size(self) -> int:
        return self.file.bytes


@dataclass(frozen=True)
class Divided:
    """A task: rewrite a range of hashes as new leaves.

    Attributes:
        leaf: the range, as the name of one leaf.
        deeper: number of additional bits of the new leaves.
        files: the files that may hold its rows.
        size: estimated bytes of its rows.
    """

    leaf: str
    deeper: int
    files: tuple[File, ...]
    size: int


@dataclass(frozen=True)
class Outcome:
    """The result of a task.

    Attributes:
        replaced: files to remove from the table.
        written: files that replace those and the staged ones.
    """

    replaced: tuple[str, ...] = ()
    written: tuple[WrittenFile, ...] = ()


@dataclass(frozen=True)
class Rewriting:
    """Rewrites files of a table. Is pickled and sent to workers.

    Attributes:
        table: the table's folder.
        schema: the table's columns.
        key: the columns of the key.
        staged: files with the new rows.
        hash_of: as for `merge_files`.
    """

    table: Place
    schema: pa.Schema
    key: tuple[str, ...]
    staged: tuple[str, ...]
    hash_of: HashOf | None

    def keys(self) -> pl.DataFrame:
        """Return the new keys, sorted by hash. Of a batch's rows, only these are held in memory."""
        keys = self.rows(self.staged).select(self.key)
        return (keys if self.hash_of is None else self._hashed(keys).sort(HASH)).collect()

    def rows(self, paths: Sequence[str]) -> pl.LazyFrame:
        """Return the rows of files."""
        return scan_in_columns([self.table / path for path in paths], self.schema)

    def run(self, tasks: Sequence["Task"], keys: pl.DataFrame) -> list[Outcome]:
        """Run merge tasks."""
        apart = [task for task in tasks if isinstance(task, Shortened)]
        outcomes = [
            self._divided(task, keys) if isinstance(task, Divided) else self._together(task.files, keys)
            for task in tasks
            if not isinstance(task, Shortened)
        ]
        # Small files wait for the disk or the network, not for the processor: write them in parallel.
        return outcomes + _side_by_side(lambda task: self._shortened(task, keys), apart)

    def _together(self, group: Sequence[File], keys: pl.DataFrame) -> Outcome:
        frames, replaced, left = [], [], 0
        for file in group:
            # Leaves are small and read at once. Other files may be large: count first, and stream the rows later.
            if file.leaf is not None:
                before = self._read(file.path)
                after = self._without(before, keys)
                if after.height == before.height:
                    continue
                rows, count = after.lazy(), after.height
                replaced.append(file.path)
            else:
                rows = self.rows([file.path])
                count = int(rows.select(pl.len()).collect().item())
                if not file.is_staged:
                    matching = self._found(rows, keys)
                    if not matching:
                        continue
                    replaced.append(file.path)
                    count -= matching
                    rows = rows.join(keys.lazy(), on=self.key, how="anti", maintain_order="left")
            if count:
                frames.append(rows)
                left += count
        written = (write_rows(pl.concat(frames), self.table, self.schema),) if left else ()
        return Outcome(tuple(replaced), written)

    def _shortened(self, task: Shortened, keys: pl.DataFrame) -> Outcome:
        rows = self._read(task.file.path)
        (where,) = (where for _, where in met_by([task.leaf], keys[HASH].to_numpy()))
        left = self._without(rows, keys[where])
        if left.height == rows.height:
            return Outcome()
        written = (write_data_file(left, self.table, self.schema, leaf=task.leaf),) if left.height else ()
        return Outcome((task.file.path,), written)

    def _read(self, path: str) -> pl.DataFrame:
        """Return all rows of a leaf."""
        rows = read_parquet(self.table / path)
        # Reading directly costs a tenth of a query, which would be most of the time for a small file.
        wanted = self.rows([]).collect_schema()
        return rows if rows.schema == wanted else self.rows([path]).collect()

    def _without(self, rows: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
        return rows.join(keys, on=self.key, how="anti", maintain_order="left")

    def _divided(self, task: Divided, keys: pl.DataFrame) -> Outcome:
        old_files = [file.path for file in task.files if not file.is_staged]
        inside = is_within(task.leaf)
        frames = [self._hashed(self.rows(self.staged)).filter(inside)]
        if old_files:
            mine = keys.lazy().filter(inside)
            frames.append(self._hashed(self.rows(old_files)).filter(inside).join(mine, on=self.key, how="anti"))
        rows = pl.concat([frame.collect(engine="streaming") for frame in frames])
        parts = list(divided(rows, task.leaf, task.deeper))
        written = _side_by_side(lambda part: write_data_file(part[1], self.table, self.schema, leaf=part[0]), parts)
        return Outcome(tuple(old_files), tuple(written))

    def _hashed(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        assert self.hash_of is not None  # noqa: S101 - narrows: leaves are asked for with it alone
        return rows.with_columns(self.hash_of(self.key).alias(HASH))

    def _found(self, rows: pl.LazyFrame, keys: pl.DataFrame) -> int:
        """Return the number of a file's rows that have one of the new keys."""
        # The range filter lets the reader skip row groups by their statistics. Minimum and maximum of floats leave out NaN.
        is_near = [
            pl.col(name).is_between(
                pl.lit(keys[name].min(), keys.schema[name]), pl.lit(keys[name].max(), keys.schema[name])
            )
            for name in self.key
            if not keys.schema[name].is_float()
        ]
        near = rows.select(self.key)
        near = near.filter(is_near) if is_near else near
        return int(near.join(keys.lazy(), on=self.key, how="semi").select(pl.len()).collect(engine="streaming").item())


Task = Together | Shortened | Divided


def _side_by_side(function: Callable[[_Given], _Made], given: Sequence[_Given]) -> list[_Made]:
    with ThreadPoolExecutor(_WRITERS) as writers:
        return list(writers.map(function, given))
