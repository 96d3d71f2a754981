"""Rows in the place of those of the same key: a merge by copy on write, as one commit from files that somebody else wrote.

Each file of the table that holds such a row is written anew without it, small ones together and with the new rows; what
holds none stays as it is. Reading and writing is done file by file, by Spark's workers where there is much to do. The
commit is refused where anybody has committed since the table was read: what rows that one brought or took, nobody has
looked at. In an object store that is a condition of the write itself, like all of Delta's commits here.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from errno import EIO, ENOENT
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import SparkSession

from keyfold.errors import IncompatibleState, InvalidData
from keyfold.lakehouse.commits import add_action, commit_once, has_taken
from keyfold.lakehouse.data_files import WrittenFile, write_rows
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.reading import scan_in_columns
from keyfold.storage.place import Place

_TOGETHER = 64 << 20
"""Files of fewer bytes in all are written anew as one: else each batch would leave a small file, and the next read them all."""

_HERE = 128 << 20
"""Bytes that this process reads by itself, as fast as the workers of one machine do; those of a cluster are more."""

_READ_AS_THEY_STAND = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Features of a table for readers that change nothing in what its files' rows are."""

_PRECISION = timedelta(milliseconds=1)
"""Of the times that a log tells."""


def merge_files(
    spark: SparkSession,
    table: Place,
    files: Sequence[WrittenFile],
    key: Sequence[str],
    application: str,
    batch: int,
) -> None:
    """Put the rows of staged files in the place of those of the same key, unless the table has taken this batch before.

    Args:
        spark: its workers read and write what is too much for this process.
        table: an existing Delta table.
        files: staged in its folder; none makes no commit.
        key: columns of which the table has one row each; never NULL, and no two rows of the files agree in them.
        application: names the sequence of batches in the table's log.
        batch: grows from one commit to the next.

    Raises:
        OSError: a disk is full or fails; the table is as it was.
        KeyfoldError: another process has written to the table meanwhile, or it is one that cannot be merged into so;
            it is as it was.
    """
    delta = DeltaTable(str(table))
    if not any(file.rows for file in files) or has_taken(delta, application, batch):
        return
    _check_plain(delta, table)
    schema = pa.schema(delta.schema().to_arrow())  # type: ignore[arg-type]
    rewriting = _Rewriting(table, schema, tuple(key), tuple(file.path for file in files if file.rows))
    keys = rewriting.keys()
    if keys.n_unique() < keys.height:
        raise InvalidData(
            f"{table}: batch {batch} has several rows of one key ({', '.join(key)}), of which the table has one row each; "
            "mend the job, and start anew with --full-refresh"
        )
    there = _files_in_reach(delta, keys)
    outcomes = _rewrite(spark, rewriting, _groups(files, there), keys)
    reached("merge: rows written")
    actions: list[AddAction | RemoveAction] = [add_action(one.written) for one in outcomes if one.written is not None]
    sizes, now = {file.path: file.bytes for file in there}, time.time_ns() // 1_000_000
    actions += [RemoveAction(path, True, now, sizes[path], {}) for one in outcomes for path in one.replaced]
    commit_once(delta, table, actions, files, application, batch, nobody_else=True)


@dataclass(frozen=True)
class _File:
    """A data file of a table, or one that is staged."""

    path: str
    bytes: int
    is_staged: bool


@dataclass(frozen=True)
class _Outcome:
    """What became of a group of files.

    Attributes:
        replaced: those of the table that held rows of the new keys.
        written: in their place and that of staged ones; None where no row was left.
        fault: number, words and file of a disk's, which is told and not raised in a worker: Spark would try again, and hide it in a stack.
    """

    replaced: tuple[str, ...] = ()
    written: WrittenFile | None = None
    fault: tuple[int, str, str] | None = None


@dataclass(frozen=True)
class _Rewriting:
    """How groups of files are written anew; goes to workers as it is.

    Attributes:
        table: whose files.
        schema: the table's columns.
        key: those that say which row is which.
        staged: files with the new rows.
    """

    table: Place
    schema: pa.Schema
    key: tuple[str, ...]
    staged: tuple[str, ...]

    def keys(self) -> pl.DataFrame:
        """The new keys: as much of a batch's rows as is held in memory."""
        return self._rows(self.staged).select(self.key).collect()

    def __call__(self, groups: Iterable[Sequence[_File]]) -> Iterator[_Outcome]:
        """Write groups of files anew, each as one, in a task of Spark's."""
        return self.write_anew(groups, self.keys())

    def write_anew(self, groups: Iterable[Sequence[_File]], keys: pl.DataFrame) -> Iterator[_Outcome]:
        """Write groups of files anew, each as one."""
        for group in groups:
            try:
                yield self._rewritten(group, keys)
            except OSError as error:
                # What Polars raises has no number.
                number = error.errno or (ENOENT if isinstance(error, FileNotFoundError) else EIO)
                yield _Outcome(fault=(number, error.strerror or str(error), str(error.filename or self.table)))

    def _rewritten(self, group: Sequence[_File], keys: pl.DataFrame) -> _Outcome:
        frames, replaced, left = [], [], 0
        for file in group:
            rows = self._rows([file.path])
            count = int(rows.select(pl.len()).collect().item())
            if not file.is_staged:
                found = self._found(rows, keys)
                if not found:
                    continue
                replaced.append(file.path)
                count -= found
                rows = rows.join(keys.lazy(), on=self.key, how="anti", maintain_order="left")
            if count:
                frames.append(rows)
                left += count
        if not left:
            return _Outcome(tuple(replaced))
        return _Outcome(tuple(replaced), write_rows(pl.concat(frames), self.table, self.schema))

    def _found(self, rows: pl.LazyFrame, keys: pl.DataFrame) -> int:
        """How many of a file's rows are of the new keys."""
        # Row groups that cannot hold any are passed over, by what the file's end says of them.
        is_near = [
            pl.col(name).is_between(
                pl.lit(keys[name].min(), keys.schema[name]), pl.lit(keys[name].max(), keys.schema[name])
            )
            for name in self.key
        ]
        near = rows.select(self.key).filter(is_near)
        return int(near.join(keys.lazy(), on=self.key, how="semi").select(pl.len()).collect(engine="streaming").item())

    def _rows(self, paths: Sequence[str]) -> pl.LazyFrame:
        return scan_in_columns([self.table / path for path in paths], self.schema)


def _rewrite(
    spark: SparkSession, rewriting: _Rewriting, groups: list[tuple[_File, ...]], keys: pl.DataFrame
) -> list[_Outcome]:
    if sum(file.bytes for group in groups for file in group) <= _HERE:
        outcomes = list(rewriting.write_anew(groups, keys))
    else:
        # As a plain collection: what comes back are names and counts.
        outcomes = spark.sparkContext.parallelize(groups, len(groups)).mapPartitions(rewriting).collect()
    if faults := [outcome.fault for outcome in outcomes if outcome.fault]:
        raise OSError(*faults[0])
    return outcomes


def _groups(files: Sequence[WrittenFile], there: Sequence[_File]) -> list[tuple[_File, ...]]:
    """Files that become one: small ones together, those with new rows first."""
    groups: list[tuple[_File, ...]] = []
    size = 0
    for file in (*(_File(file.path, file.bytes, True) for file in files if file.rows), *there):
        if groups and size + file.bytes <= _TOGETHER:
            groups[-1] += (file,)
            size += file.bytes
        else:
            groups.append((file,))
            size = file.bytes
    return groups


def _files_in_reach(delta: DeltaTable, keys: pl.DataFrame) -> list[_File]:
    """The files of a table that may hold rows of the new keys, as far as its log tells; the smallest first."""
    found = delta.get_add_actions(flatten=True)
    columns = {name: found[name].to_pylist() for name in found.schema.names}
    untold = [None] * len(columns["path"])
    told = [
        ((new.min(), new.max()), columns.get(f"min.{new.name}", untold), columns.get(f"max.{new.name}", untold))
        for new in keys
    ]
    files = [
        _File(unquote(columns["path"][at]), columns["size_bytes"][at], False)
        for at in range(len(untold))
        if all(_meet(span, least[at], greatest[at]) for span, least, greatest in told)
    ]
    return sorted(files, key=lambda file: (file.bytes, file.path))


def _meet(span: tuple[Any, Any], least: Any, greatest: Any) -> bool:
    """Whether a span of keys meets that of a file, which need not be told."""
    first, last = span
    # Of numbers with fractions and of decimals writers do not agree on how they are told.
    if least is None or greatest is None or type(first) is not type(least) or not isinstance(least, int | str | date):
        return True
    # Some writers cut off what is below a millisecond, of the greatest too.
    is_near = isinstance(least, datetime) and first > greatest and first - greatest < _PRECISION
    return (first <= greatest or is_near) and least <= last


def _check_plain(delta: DeltaTable, table: Place) -> None:
    settings, protocol = delta.metadata().configuration, delta.protocol()
    features = set(protocol.reader_features or ()) - _READ_AS_THEY_STAND
    if protocol.min_reader_version == 2:
        features.add("columnMapping")
    if settings.get("delta.enableChangeDataFeed") == "true":
        features.add("changeDataFeed")
    if delta.metadata().partition_columns:
        features.add("partitions")
    if features:
        raise IncompatibleState(
            f"{table} has {', '.join(sorted(features))}, which Keyfold does not merge rows into: its own tables never have. "
            "Switch it off (of Delta's features, ALTER TABLE ... DROP FEATURE), or write the table again with --full-refresh"
        )
