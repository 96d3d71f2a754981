"""Compare two states, or a state and a table: which keys were added, removed and changed, and how.

They are compared in pieces that have all rows of their keys on both sides. Of two batches of a generation, these are the parts that
they do not share; otherwise all rows are read, in as many passes over hashes of the key as memory needs.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl
import pyarrow as pa

from keyfold.errors import InvalidData
from keyfold.keyed.parts.differences import differences
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.rows.codec import empty, polars_schema
from keyfold.keyed.rows.hashing import key_hash
from keyfold.lakehouse import Lakehouse
from keyfold.state.making.sources import fitted, open_source, reading
from keyfold.state.reading.export import Export, Format, write_state
from keyfold.state.reading.state_rows import StateRows, unreadable
from keyfold.state.rows.lines import json_lines
from keyfold.storage.place import Place

Change = Literal["added", "removed", "changed"]

Piece = tuple[pl.DataFrame, pl.DataFrame, int]
"""All rows of some keys before and after, and a number of other keys that are equal."""

_BYTES_A_PASS = 256 << 20
_ROWS, _AFTER, _TEXT = "#rows", "#after", "#text"
_COUNTS = ("keys_before", "keys_after", "added", "removed", "changed", "unchanged")


@dataclass(frozen=True)
class DiffSummary:
    """The difference of two states, in keys.

    Attributes:
        before, after: descriptions of the two states.
        keys_before, keys_after: number of keys of each.
        added, removed, changed, unchanged: number of keys only in the second, only in the first, in both with other rows, and
            in both with the same rows.
        columns: number of changed keys in which each column differs; columns without differences are left out.
        not_compared: columns that only one of them has, or that have different types.
    """

    before: str
    after: str
    keys_before: int
    keys_after: int
    added: int
    removed: int
    changed: int
    unchanged: int
    columns: dict[str, int]
    not_compared: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether no key differs in a column that both have."""
        return not (self.added or self.removed or self.changed)


@dataclass(frozen=True)
class StateDiff:
    """A comparison of two states, which is computed when a method is called; itself rows that can be exported.

    Attributes:
        before, after: descriptions of the two states.
        key: columns of the key.
        columns: columns that are compared, without the key.
        not_compared: columns that only one of them has, or that have different types.
        schema: columns of the key, `change` (added, removed, changed), and the rows `before` and `after`.
    """

    before: str
    after: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    not_compared: tuple[str, ...]
    schema: pa.Schema
    _pieces: Callable[[bool], Iterator[Piece]]

    @property
    def where(self) -> str:
        """Describes the comparison, for messages."""
        return f"{self.before} against {self.after}"

    def summary(self) -> DiffSummary:
        """Count added, removed, changed and unchanged keys.

        Raises:
            KeyfoldError: one of the two cannot be read.
        """
        counts = Counter[str]()
        for before, after, equal in self._pieces(True):
            counts.update(dict.fromkeys(("keys_before", "keys_after", "unchanged"), equal))
            if before.height or after.height:
                counts.update(count_changes(before, after, self.key, self.columns))
        columns = {name: counts[f"column {name}"] for name in self.columns if counts[f"column {name}"]}
        keys: dict[str, int] = {name: counts[name] for name in _COUNTS}
        return DiffSummary(self.before, self.after, **keys, columns=columns, not_compared=self.not_compared)

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield a row for each key that differs, in the columns of `schema`.

        Raises:
            KeyfoldError: one of the two cannot be read.
        """
        inner = pl.struct(self.columns) if self.columns else pl.struct(pl.lit(value=True).alias("there"))
        for before, after, _ in self._pieces(False):
            differs = pl.col("change") != "unchanged"
            keys = _joined(before, after, self.key, self.columns).filter(differs).select(*self.key, "change")
            for name, rows in (("before", before), ("after", after)):
                theirs = rows.group_by(self.key).agg(inner.alias(name))
                keys = keys.join(theirs, on=self.key, how="left", nulls_equal=True, maintain_order="left")
            if keys.height:
                yield keys

    def first_rows(self, limit: int) -> pl.DataFrame:
        """Return the first of the rows of `frames`, sorted by key.

        Raises:
            KeyfoldError: one of the two cannot be read.
        """
        found = empty(self.schema)
        for rows in self.frames():
            found = pl.concat([found, rows.cast(found.schema)]).sort(self.key).head(limit)
        return found

    def write(self, to: Place | str, style: Format) -> Export:
        """Write the rows of `frames` to a table or to files.

        Raises:
            KeyfoldError: the path has files already, or one of the two cannot be read.
        """
        return write_state(self, to, style)


def diff_states(before: StateRows, after: StateRows) -> StateDiff:
    """Compare two states: of two batches, two generations, a generation and a branch, or two jobs with the same key.

    Raises:
        KeyfoldError: their keys have different columns.

    Example:
        >>> was = read_state(lakehouse, "ride_summaries", batch=3)  # doctest: +SKIP
        >>> diff_states(was, read_state(lakehouse, "ride_summaries")).summary().changed  # doctest: +SKIP
    """
    if before.key != after.key:
        raise InvalidData(
            f"{before.where} has the key {', '.join(before.key)} and {after.where} {', '.join(after.key)}: states with "
            "different keys cannot be compared"
        )
    if before.is_whole and after.is_whole and before.parts == after.parts and before.schema == after.schema:
        columns = tuple(name for name in before.schema.names if name not in before.key)
        schema = _schema(before, columns)
        return StateDiff(
            before.where, after.where, before.key, columns, (), schema, lambda count: _unshared(before, after, count)
        )
    return _diff(before, after.where, dict(empty(after.schema).schema), after.matching, after.bytes)


def diff_with_table(state: StateRows, lakehouse: Lakehouse, table: str) -> StateDiff:
    """Compare a state (before) with a table (after), in the columns that both have.

    Args:
        state: the state of a job.
        lakehouse: the lakehouse, whose tables can be named.
        table: a name that `keyfold show` takes, or the path of a Delta table, or of Parquet, CSV or JSON files. Values are
            converted to the state's types; one that does not fit counts as NULL.

    Raises:
        KeyfoldError: there is no such table, or it lacks a column of the key.
    """
    wanted = polars_schema(state.schema)
    with reading(table):
        source = open_source(lakehouse, table, state.key)
        have = dict(source.collect_schema())
    if lacking := [column for column in state.key if column not in have]:
        raise InvalidData(f"{table} has no column {', '.join(lacking)}, of the key of {state.where}")
    typed = source.with_columns(fitted(pl.col(name), have[name], wanted[name]) for name in have if name in wanted)

    def matching(condition: pl.Expr) -> pl.DataFrame:
        with reading(table):
            return typed.filter(condition).collect(engine="streaming")

    return _diff(state, f"table {table}", have | {name: wanted[name] for name in have if name in wanted}, matching, 0)


def _diff(
    before: StateRows, after: str, right: dict[str, pl.DataType], matching: Callable[[pl.Expr], pl.DataFrame], size: int
) -> StateDiff:
    left, key = polars_schema(before.schema), before.key
    columns = tuple(name for name in left if right.get(name) == left[name] and name not in key)
    not_compared = tuple(name for name in {**left, **right} if name not in columns and name not in key)
    passes = 1 + (before.bytes + size) // _BYTES_A_PASS

    def pieces(_: bool) -> Iterator[Piece]:
        for number in range(passes):
            condition = key_hash(key) % passes == number
            yield before.matching(condition), matching(condition), 0

    return StateDiff(before.where, after, key, columns, not_compared, _schema(before, columns), pieces)


def _unshared(before: StateRows, after: StateRows, count: bool) -> Iterator[Piece]:
    none = empty(before.schema)
    with unreadable(f"{before.where} and {after.where}"):
        for label in sorted(before.manifests.keys() | after.manifests.keys()):
            was, now = (
                Manifest.unpack(one.manifests[label]) if label in one.manifests else Manifest(0)
                for one in (before, after)
            )
            for one in differences(was, now, before.parts, before.key, count=count):
                yield one.before if one.before.width else none, one.after if one.after.width else none, one.equal_keys


def count_changes(
    before: pl.DataFrame, after: pl.DataFrame, key: Sequence[str], columns: Sequence[str]
) -> dict[str, int]:
    """Count added, removed, changed and unchanged keys of whole keys' rows, and as `column NAME` the changed keys by column."""
    joined, change = _joined(before, after, key, columns), pl.col("change")
    counts = {
        "keys_before": change != "added",
        "keys_after": change != "removed",
        **{kind: change == kind for kind in ("added", "removed", "changed", "unchanged")},
        **{f"column {name}": (change == "changed") & _differs(name) for name in columns},
    }
    return joined.select(condition.sum().alias(name) for name, condition in counts.items()).row(0, named=True)


def _joined(before: pl.DataFrame, after: pl.DataFrame, key: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    """Return a row for each key, with `change`. NaN equals NaN, and NULL equals NULL; the rows of a key have no order."""
    was, now = (_by_key(rows, list(key), list(columns)) for rows in (before, after))
    joined = was.join(now, on=list(key), how="full", nulls_equal=True, coalesce=True, suffix=_AFTER)
    changed = pl.any_horizontal(_differs(name) for name in (_ROWS, *columns))
    change = pl.when(pl.col(_ROWS).is_null()).then(pl.lit("added"))
    change = change.when(pl.col(f"{_ROWS}{_AFTER}").is_null()).then(pl.lit("removed"))
    change = change.when(changed).then(pl.lit("changed")).otherwise(pl.lit("unchanged"))
    return joined.with_columns(change.alias("change"))


def _by_key(rows: pl.DataFrame, key: list[str], columns: list[str]) -> pl.DataFrame:
    rows = rows.select(*key, *columns)
    nested = [name for name in columns if rows.schema[name].is_nested()]
    if nested:
        # Polars does not sort lists.
        rows = rows.with_columns(json_lines(rows.select(nested), (), "jsonl").alias(_TEXT))
    order = [name for name in columns if name not in nested] + [_TEXT] * bool(nested)
    rows = rows.sort(order) if order else rows
    return rows.group_by(key, maintain_order=True).agg(*columns, pl.len().alias(_ROWS))


def _differs(name: str) -> pl.Expr:
    return pl.col(name).ne_missing(pl.col(f"{name}{_AFTER}"))


def _schema(before: StateRows, columns: Sequence[str]) -> pa.Schema:
    compared = [before.schema.field(name) for name in columns] or [pa.field("there", pa.bool_())]
    rows = pa.list_(pa.struct(compared))
    fields = [*(before.schema.field(name) for name in before.key), pa.field("change", pa.string())]
    return pa.schema([*fields, pa.field("before", rows), pa.field("after", rows)])
