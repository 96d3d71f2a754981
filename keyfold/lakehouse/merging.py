"""Rows in the place of those of the same key: a merge by copy on write, as one commit from files that somebody else wrote.

Each file of the table that holds such a row is written anew without it, small ones together and with the new rows; what
holds none stays as it is. A table that has grown is divided into `leaves`, small files that each hold a range of hashes, so
that few changed keys have few bytes written anew. Reading and writing is done by Spark's workers where there is much to do.
The commit is refused where anybody has committed since the table was read: what rows that one brought or took, nobody has
looked at. In an object store that is a condition of the write itself, like all of Delta's commits here.
"""

import time
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import SparkSession

from keyfold.errors import IncompatibleState, InvalidData
from keyfold.lakehouse.commits import add_action, commit_once, has_taken
from keyfold.lakehouse.data_files import WrittenFile, leaf_of
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.leaves import (
    HASH,
    HashOf,
    depth_of,
    leaf_bytes,
    leaves_of,
    met_by,
    overlaps,
    ranges_of,
)
from keyfold.lakehouse.rewriting import Divided, File, Outcome, Rewriting, Shortened, Task, Together
from keyfold.storage.place import Place

_TOGETHER = 64 << 20
"""Files of fewer bytes in all are written anew as one: else each batch would leave a small file, and the next read them all."""

_HERE = 128 << 20
"""Bytes that this process reads by itself, as fast as the workers of one machine do; those of a cluster are more."""

_RECENT = 16 << 20
_SHARE = 32
"""Bytes of files of any keys, and their share of the leaves' bytes, beyond which they become leaves: until then each batch
may write them anew."""

_MANY = 64
"""A batch with so many keys for each leaf ends them; half a key for each is few enough to begin them."""

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
    hash_of: HashOf | None = None,
) -> None:
    """Put the rows of staged files in the place of those of the same key, unless the table has taken this batch before.

    Args:
        spark: its workers read and write what is too much for this process.
        table: an existing Delta table.
        files: staged in its folder; none makes no commit.
        key: columns of which the table has one row each; never NULL, and no two rows of the files agree in them.
        application: names the sequence of batches in the table's log.
        batch: grows from one commit to the next.
        hash_of: by which the table is divided into leaves, always the same; None where it is not to be.

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
    rewriting = Rewriting(table, schema, tuple(key), tuple(file.path for file in files if file.rows), hash_of)
    keys = rewriting.keys()
    if keys.n_unique(rewriting.key) < keys.height:
        raise InvalidData(
            f"{table}: batch {batch} has several rows of one key ({', '.join(key)}), of which the table has one row each; "
            "mend the job, and start anew with --full-refresh"
        )
    there = _files_of(delta, keys.select(rewriting.key), is_divided=hash_of is not None)
    outcomes = _rewrite(spark, rewriting, _tasks(rewriting, files, there, keys), keys)
    reached("merge: rows written")
    actions: list[AddAction | RemoveAction] = [add_action(one) for outcome in outcomes for one in outcome.written]
    sizes, now = {file.path: file.bytes for file in there}, time.time_ns() // 1_000_000
    # Once each: a file's rows may have gone to several tasks.
    replaced = dict.fromkeys(path for outcome in outcomes for path in outcome.replaced)
    actions += [RemoveAction(path, True, now, sizes[path], {}) for path in replaced]
    commit_once(delta, table, actions, files, application, batch, nobody_else=True)


def rows_before(
    table: Place, files: Sequence[WrittenFile], key: Sequence[str], hash_of: HashOf | None = None
) -> pl.LazyFrame:
    """The rows of a table that a merge of staged files will put others in the place of.

    Args:
        table, files, key, hash_of: as of `merge_files`.
    """
    delta = DeltaTable(str(table))
    schema = pa.schema(delta.schema().to_arrow())  # type: ignore[arg-type]
    rewriting = Rewriting(table, schema, tuple(key), tuple(file.path for file in files), hash_of)
    keys = rewriting.keys()
    there = _files_of(delta, keys.select(rewriting.key), is_divided=hash_of is not None)
    leaves = {file.leaf: file.path for file in there if file.leaf is not None}
    near = [file.path for file in there if file.leaf is None and file.is_in_reach]
    near += [leaves[leaf] for leaf, _ in met_by(list(leaves), keys[HASH].to_numpy())] if leaves else []
    return rewriting.rows(near).join(keys.lazy(), on=rewriting.key, how="semi")


def _tasks(rewriting: Rewriting, files: Sequence[WrittenFile], there: Sequence[File], keys: pl.DataFrame) -> list[Task]:
    """What is to be done to a table's files."""
    staged = [File(file.path, file.bytes, is_staged=True) for file in files if file.rows]
    total = sum(file.bytes for file in (*staged, *there))
    if rewriting.hash_of is None or keys.height > _MANY * leaves_of(total):
        # They would meet all leaves: fewer and larger files are cheaper then.
        return [Together(group) for group in _groups([*staged, *(file for file in there if file.is_in_reach)])]
    leaves = {file.leaf: file for file in there if file.leaf is not None}
    others = [file for file in there if file.leaf is None]
    recent, grown = [file for file in others if file.is_in_reach], sum(file.bytes for file in (*staged, *others))
    # Only few keys leave most leaves as they are.
    elsewhere, is_few = keys, 2 * keys.height <= leaves_of(total)
    if recent and (leaves or (is_few and grown > _RECENT)):
        near = rewriting.rows([file.path for file in recent]).select(rewriting.key)
        # A key has one row: of what is found here no leaf is looked at.
        found = near.join(keys.lazy(), on=rewriting.key, how="semi").collect(engine="streaming")
        elsewhere = keys.join(found, on=rewriting.key, how="anti", maintain_order="left")
    # And rows that are never changed need none.
    if (leaves or elsewhere.height < keys.height) and grown > max(_RECENT, (total - grown) // _SHARE):
        return _divisions(there, total)
    together = [Together(group) for group in _groups([*staged, *recent])]
    met = met_by(list(leaves), elsewhere[HASH].to_numpy())
    return [*together, *(Shortened(leaf, leaves[leaf]) for leaf, _ in met)]


def _divisions(there: Sequence[File], total: int) -> list[Task]:
    """All of a table becomes leaves anew, a range of hashes at a time, to bound memory."""
    at_once = depth_of(total, _TOGETHER)
    deeper = max(0, depth_of(total, leaf_bytes(total)) - at_once)
    return [
        Divided(
            leaf,
            deeper,
            tuple(file for file in there if file.leaf is None or overlaps(file.leaf, leaf)),
            total >> at_once,
        )
        for leaf in ranges_of(at_once)
    ]


def _rewrite(spark: SparkSession, rewriting: Rewriting, tasks: Sequence[Task], keys: pl.DataFrame) -> list[Outcome]:
    if sum(task.size for task in tasks) <= _HERE:
        outcomes = list(rewriting.write_anew(tasks, keys))
    else:
        # As a plain collection: what comes back are names and counts. Leaves are small, and each of Spark's tasks takes many.
        context = spark.sparkContext
        large = sum(task.size >= _TOGETHER // 4 for task in tasks)
        slices = min(len(tasks), max(large, 4 * context.defaultParallelism))
        outcomes = context.parallelize(tasks, slices).mapPartitions(rewriting).collect()
    if faults := [outcome.fault for outcome in outcomes if outcome.fault]:
        raise OSError(*faults[0])
    return outcomes


def _groups(files: Sequence[File]) -> list[tuple[File, ...]]:
    """Files that become one: small ones together, those with new rows first."""
    groups: list[tuple[File, ...]] = []
    size = 0
    for file in files:
        if groups and size + file.bytes <= _TOGETHER:
            groups[-1] += (file,)
            size += file.bytes
        else:
            groups.append((file,))
            size = file.bytes
    return groups


def _files_of(delta: DeltaTable, keys: pl.DataFrame, *, is_divided: bool) -> list[File]:
    """The files of a table, the smallest first."""
    found = delta.get_add_actions(flatten=True)
    columns = {name: found[name].to_pylist() for name in found.schema.names}
    untold = [None] * len(columns["path"])
    told = [
        ((new.min(), new.max()), columns.get(f"min.{new.name}", untold), columns.get(f"max.{new.name}", untold))
        for new in keys
    ]
    files: list[File] = []
    for at, (quoted, size) in enumerate(zip(columns["path"], columns["size_bytes"], strict=True)):
        path = unquote(quoted)
        is_in_reach = all(_meet(span, least[at], greatest[at]) for span, least, greatest in told)
        files.append(File(path, size, leaf=leaf_of(path) if is_divided else None, is_in_reach=is_in_reach))
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
