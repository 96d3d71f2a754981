"""Merge staged rows into an upsert table by key: copy on write, in one commit.

Each file that holds a row with one of the new keys is rewritten without that row; small files are rewritten as one, together
with the new rows. Other files do not change. A large table is divided into `leaves`, small files that each hold a range of
key hashes, so that few changed keys rewrite few bytes.

The commit fails if any process has committed since the table was read, since the rows of that commit were not merged.
"""

import time
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from keyfold.errors import InvalidData
from keyfold.lakehouse.commits import add_action, commit_once, has_taken
from keyfold.lakehouse.data_files import WrittenFile, leaf_of
from keyfold.lakehouse.fail_points import fail_point
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
from keyfold.lakehouse.table_features import check_mergeable
from keyfold.runners import Runners
from keyfold.storage.place import Place

_TOGETHER = 64 << 20
"""Small files are rewritten as one up to this many bytes. Otherwise each batch would add a small file that all later batches
have to read."""

_RECENT = 16 << 20
_SHARE = 32
"""Recent files become leaves beyond this many bytes, and beyond this share of the leaves' bytes. Until then each batch may
rewrite them."""

_SHARE_BYTES = 16 << 20
"""Bytes of a merge that a task of the runner rewrites."""

_MANY = 64
"""A batch with more keys per leaf than this rewrites all leaves as large files. Leaves begin with half a key per leaf."""

_PRECISION = timedelta(milliseconds=1)
"""Precision of times in a log's statistics."""


def merge_files(
    runners: Runners,
    table: Place,
    files: Sequence[WrittenFile],
    key: Sequence[str],
    application: str,
    batch: int,
    hash_of: HashOf | None = None,
) -> None:
    """Upsert the rows of staged files by key, unless the table already has this batch.

    Args:
        runners: choose where the work is done.
        table: an existing Delta table.
        files: files staged in its folder; without any, nothing is committed.
        key: the columns of the key: never NULL, one row per key in the table and in the staged files.
        application: the name of the sequence of batches in the table's log.
        batch: the batch's number, which increases from commit to commit.
        hash_of: the hash for dividing the table into leaves, always the same one; None for no leaves.

    Raises:
        OSError: a disk is full or fails; the table was not changed.
        KeyfoldError: another process has written to the table meanwhile, or the table has features that cannot be merged
            into; it was not changed.
    """
    if not any(file.rows for file in files):
        return
    delta = DeltaTable(str(table))
    if has_taken(delta, application, batch):
        return
    check_mergeable(delta, table)
    schema = pa.schema(delta.schema().to_arrow())  # type: ignore[arg-type]
    rewriting = Rewriting(table, schema, tuple(key), tuple(file.path for file in files if file.rows), hash_of)
    keys = rewriting.keys()
    check_one_row_per_key(f"{table}: batch {batch}", keys, rewriting.key)
    there = _files_of(delta, keys.select(rewriting.key), is_divided=hash_of is not None)
    outcomes = _rewrite(runners, rewriting, _tasks(rewriting, files, there, keys), keys)
    fail_point("merge: rows written")
    actions: list[AddAction | RemoveAction] = [add_action(one) for outcome in outcomes for one in outcome.written]
    sizes, now = {file.path: file.bytes for file in there}, time.time_ns() // 1_000_000
    # Each path once: several tasks may have rewritten rows of one file.
    replaced = dict.fromkeys(path for outcome in outcomes for path in outcome.replaced)
    # Unlike compaction, a merge changes data: readers of the table's additions must notice the removal.
    actions += [RemoveAction(path, True, now, sizes[path], {}) for path in replaced]
    commit_once(delta, table, actions, files, application, batch, nobody_else=True)


def check_one_row_per_key(where: str, rows: pl.DataFrame, key: Sequence[str]) -> None:
    """Check that no two rows for an upsert table have one key.

    Raises:
        InvalidData: some have; says what to do.
    """
    if rows.n_unique(key) < rows.height:
        raise InvalidData(
            f"{where} has several rows of one key ({', '.join(key)}), but the table has one row per key; start again with "
            "--full-refresh: Keyfold writes the last row of a key now, and where it does not, that is a fault to report"
        )


def rows_before(
    table: Place, files: Sequence[WrittenFile], key: Sequence[str], hash_of: HashOf | None = None
) -> pl.LazyFrame:
    """Return the rows of a table that a merge of staged files will replace.

    Args:
        table, files, key, hash_of: as for `merge_files`.
    """
    delta = DeltaTable(str(table))
    schema = pa.schema(delta.schema().to_arrow())  # type: ignore[arg-type]
    rewriting = Rewriting(table, schema, tuple(key), tuple(file.path for file in files), hash_of)
    keys = rewriting.keys()
    there = _files_of(delta, keys.select(rewriting.key), is_divided=hash_of is not None)
    # Only files that may hold the keys are read: recent ones by their statistics, leaves by their ranges of hashes.
    leaves = {file.leaf: file.path for file in there if file.leaf is not None}
    near = [file.path for file in there if file.leaf is None and file.is_in_reach]
    near += [leaves[leaf] for leaf, _ in met_by(list(leaves), keys[HASH].to_numpy())] if leaves else []
    return rewriting.rows(near).join(keys.lazy(), on=rewriting.key, how="semi")


def _tasks(rewriting: Rewriting, files: Sequence[WrittenFile], there: Sequence[File], keys: pl.DataFrame) -> list[Task]:
    """Return the tasks of a merge: which files to rewrite, and how."""
    staged = [File(file.path, file.bytes, is_staged=True) for file in files if file.rows]
    total = sum(file.bytes for file in (*staged, *there))
    if rewriting.hash_of is None or keys.height > _MANY * leaves_of(total):
        # So many keys touch all leaves: fewer and larger files are cheaper.
        return [Together(group) for group in _groups([*staged, *(file for file in there if file.is_in_reach)])]
    leaves = {file.leaf: file for file in there if file.leaf is not None}
    undivided = [file for file in there if file.leaf is None]
    recent, grown = [file for file in undivided if file.is_in_reach], sum(file.bytes for file in (*staged, *undivided))
    # Leaves pay only if most of them stay unchanged, that is for few keys.
    elsewhere, is_few = keys, 2 * keys.height <= leaves_of(total)
    if recent and (leaves or (is_few and grown > _RECENT)):
        near = rewriting.rows([file.path for file in recent]).select(rewriting.key)
        # A key has one row: leaves need not be searched for keys that recent files hold.
        in_recent = near.join(keys.lazy(), on=rewriting.key, how="semi").collect(engine="streaming")
        elsewhere = keys.join(in_recent, on=rewriting.key, how="anti", maintain_order="left")
    # A table whose rows never change needs no leaves.
    if (leaves or elsewhere.height < keys.height) and grown > max(_RECENT, (total - grown) // _SHARE):
        return _divisions(there, total)
    together = [Together(group) for group in _groups([*staged, *recent])]
    met = met_by(list(leaves), elsewhere[HASH].to_numpy())
    return [*together, *(Shortened(leaf, leaves[leaf]) for leaf, _ in met)]


def _divisions(there: Sequence[File], total: int) -> list[Task]:
    """Rewrite the whole table as leaves, one range of hashes per task to bound memory."""
    # A task per `at_once` leading bits, each of which makes leaves with `deeper` more bits.
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


def _rewrite(runners: Runners, rewriting: Rewriting, tasks: Sequence[Task], keys: pl.DataFrame) -> list[Outcome]:
    runner = runners.for_bytes(sum(task.size for task in tasks))
    # Leaves are small, so that each item has many of them. Only names and counts are collected.
    count = min(len(tasks), 1 + sum(task.size for task in tasks) // _SHARE_BYTES)
    shares = [tasks[at::count] for at in range(count)]
    return [outcome for done in runner.map(partial(rewriting.run, keys=keys), shares) for outcome in done]


def _groups(files: Sequence[File]) -> list[tuple[File, ...]]:
    """Group small files to be rewritten as one, staged files first."""
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
    """Return the files of a table, the smallest first."""
    actions = delta.get_add_actions(flatten=True)
    columns = {name: actions[name].to_pylist() for name in actions.schema.names}
    unknown = [None] * len(columns["path"])
    spans = [
        ((new.min(), new.max()), columns.get(f"min.{new.name}", unknown), columns.get(f"max.{new.name}", unknown))
        for new in keys
    ]
    files: list[File] = []
    for at, (quoted, size) in enumerate(zip(columns["path"], columns["size_bytes"], strict=True)):
        path = unquote(quoted)
        is_in_reach = all(_may_overlap(span, least[at], greatest[at]) for span, least, greatest in spans)
        files.append(File(path, size, leaf=leaf_of(path) if is_divided else None, is_in_reach=is_in_reach))
    # In this order `_groups` joins small files with each other, and leaves large ones alone.
    return sorted(files, key=lambda file: (file.bytes, file.path))


def _may_overlap(span: tuple[Any, Any], least: Any, greatest: Any) -> bool:
    """Whether a span of keys overlaps a file's span; True if the file's is not known."""
    first, last = span
    # Writers do not agree on how statistics represent floating-point and decimal numbers.
    if least is None or greatest is None or type(first) is not type(least) or not isinstance(least, int | str | date):
        return True
    # Some writers truncate times to milliseconds, the maximum too.
    is_near = isinstance(least, datetime) and first > greatest and first - greatest < _PRECISION
    return (first <= greatest or is_near) and least <= last
