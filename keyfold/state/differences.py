"""Compare two states, or a state and a table, or two tables: which keys were added, removed and changed, and how.

They are compared in pieces that have all rows of their keys on both sides. Of two batches of a generation, these are the parts that
they do not share; otherwise all rows are read, in as many passes over hashes of the key as memory needs.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from keyfold.errors import InvalidData
from keyfold.keyed.calling.slots import NO_SLOTS, SLOT, distinct, union
from keyfold.keyed.rows.codec import empty
from keyfold.keyed.rows.hashing import key_hash
from keyfold.keyed.state_parts.folding import Layers
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.part_reading import unreadable
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.file_changes import rows_with
from keyfold.lakehouse.paths import is_table
from keyfold.lakehouse.presence import named_files
from keyfold.lakehouse.reading import scan_table
from keyfold.state.making.sources import fitted, open_source, reading
from keyfold.state.reading.state_rows import StateRows
from keyfold.state.rows.lines import json_lines
from keyfold.storage.place import Place

Piece = tuple[pl.DataFrame, pl.DataFrame]
"""All rows of some keys before and after."""

_BYTES_A_PASS = 256 << 20
_TEXT, _THERE = "#text", "#there"


@dataclass(frozen=True)
class Counts:
    """The difference in keys.

    Attributes:
        before, after: descriptions of what is compared.
        added, removed, changed: number of keys only in the second, only in the first, and in both with other rows.
        columns: number of changed keys in which each column differs; columns without differences are left out.
        not_compared: columns that only one of them has, or that have different types.
    """

    before: str
    after: str
    added: int
    removed: int
    changed: int
    columns: dict[str, int]
    not_compared: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether no key differs in a column that both have."""
        return not (self.added or self.removed or self.changed)


@dataclass(frozen=True)
class Difference:
    """A comparison, which is computed when a method is called; itself rows that can be exported (`write_state`).

    Attributes:
        before, after: descriptions of what is compared.
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
    _pieces: Callable[[], Iterator[Piece]]

    @property
    def subject(self) -> str:
        """Describes the comparison, for messages."""
        return f"{self.before} against {self.after}"

    def summary(self) -> Counts:
        """Count added, removed and changed keys.

        Raises:
            KeyfoldError: one of the two cannot be read.
        """
        return self.summary_and_first(0)[0]

    def summary_and_first(self, limit: int, of_each: Sequence[str] = ()) -> tuple[Counts, pl.DataFrame]:
        """Return `summary` and the first of the rows of `frames`, sorted by `of_each` and key; both sides are read once.

        Args:
            limit: number of rows; of each value of `of_each`, if that is given.
            of_each: columns of `schema`.

        Raises:
            KeyfoldError: one of the two cannot be read.
        """
        key, names, kinds, columns = list(self.key), list(self.columns), Counter[str](), Counter[str]()
        first = empty(self.schema)
        for before, after in self._pieces():
            differing, both = _differing(before, after, key, names), (before, after)
            if differing is None:
                rows = _changed(before, after, key, names)
                differing = _differing_of_lists(rows, key, names)
            else:
                # Of most keys, lists of rows need not be made.
                shown = _head(differing, limit, of_each, key)
                rows = _changed(*(side.join(shown, on=key, how="semi", nulls_equal=True) for side in both), key, names)
            kinds.update(dict(differing.group_by("change").len().iter_rows()))
            changed = differing.filter(pl.col("change") == "changed")
            columns.update(
                changed.select(pl.col(_differs(name)).sum().alias(name) for name in names).row(0, named=True)
                if names
                else {}
            )
            first = _head(pl.concat([first, rows.cast(first.schema)]), limit, of_each, key)
        differ = {name: columns[name] for name in names if columns[name]}
        counts = (kinds[kind] for kind in ("added", "removed", "changed"))
        return Counts(self.before, self.after, *counts, columns=differ, not_compared=self.not_compared), first

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield a row for each key that differs, in the columns of `schema`.

        Raises:
            KeyfoldError: one of the two cannot be read.
        """
        for before, after in self._pieces():
            if (changed := _changed(before, after, list(self.key), list(self.columns))).height:
                yield changed

    def first_rows(self, limit: int) -> pl.DataFrame:
        """Return the first of the rows of `frames`, sorted by key.

        Raises:
            KeyfoldError: one of the two cannot be read.
        """
        return self.summary_and_first(limit)[1]

    def first_of_each(self, limit: int) -> pl.DataFrame:
        """Return the first of the rows of `frames` of each kind of change, sorted by change and key.

        Raises:
            KeyfoldError: one of the two cannot be read.
        """
        return self.summary_and_first(limit, ["change"])[1]


def diff_states(before: StateRows, after: StateRows, which: pl.Expr | None = None) -> Difference:
    """Compare two states: of two batches, two generations, a generation and a branch, or two jobs with the same key.

    Args:
        before, after: the states.
        which: which rows of both; None for all.

    Raises:
        KeyfoldError: their keys have different columns.

    Example:
        >>> was = read_state(lakehouse, "ride_summaries", batch=3)  # doctest: +SKIP
        >>> diff_states(was, read_state(lakehouse, "ride_summaries")).summary().changed  # doctest: +SKIP
    """
    if before.key != after.key:
        raise InvalidData(
            f"{before.subject} has the key {', '.join(before.key)} and {after.subject} {', '.join(after.key)}: states with "
            "different keys cannot be compared"
        )
    if which is not None:
        return _diff(before.schema, before.key, _Matching(before, which), _Matching(after, which))
    if before.is_whole and after.is_whole and before.parts == after.parts and before.schema == after.schema:
        return _diff(before.schema, before.key, before, after, partial(_unshared, before, after))
    return _diff(before.schema, before.key, before, after)


def diff_with_table(state: StateRows, lakehouse: Lakehouse, table: str) -> Difference:
    """Compare a state (before) with a table (after), in the columns that both have.

    Args:
        state: the state of a job.
        lakehouse: the lakehouse, whose tables can be named.
        table: a name that `keyfold show` takes, or the path of a Delta table, or of Parquet, CSV or JSON files. Values are
            converted to the state's types; one that does not fit counts as NULL.

    Raises:
        KeyfoldError: there is no such table, or it lacks a column of the key.
    """
    wanted = state.kinds
    with reading(table):
        source = open_source(lakehouse, table, state.key)
        have = dict(source.collect_schema())
    if lacking := [column for column in state.key if column not in have]:
        raise InvalidData(
            f"{table} has no column {', '.join(lacking)}, of the key of {state.subject}: give a table that has all columns of the key"
        )
    typed = source.with_columns(fitted(pl.col(name), have[name], wanted[name]) for name in have if name in wanted)
    return _diff(state.schema, state.key, state, _Table(f"table {table}", typed))


def diff_tables(before: Place, after: Place, key: Sequence[str], which: pl.Expr | None = None) -> Difference:
    """Compare two Delta tables by a key of which they may have several rows, or by all columns. A missing table counts as empty.

    Args:
        before, after: the tables.
        key: columns of the key.
        which: which rows of both; None for all.
    """
    there = [scan_table(place) for place in (before, after) if is_table(place)]
    none = there[0].clear() if there else pl.LazyFrame(schema=dict.fromkeys(key, pl.String()))
    was, now = (_open(place, none, which) for place in (before, after))
    both = [name for name, kind in was.kinds.items() if now.kinds.get(name) == kind and not kind.is_nested()]
    return _diff(none.collect().to_arrow().schema, [name for name in key if name in both] or both, was, now)


@dataclass(frozen=True)
class _Table:
    """A table that is compared; as `StateRows`, it says what it is and how large, and gives rows that fulfil a condition."""

    subject: str
    rows: pl.LazyFrame
    bytes: int = 0

    @property
    def kinds(self) -> Mapping[str, pl.DataType]:
        return self.rows.collect_schema()

    def matching(self, condition: pl.Expr) -> pl.DataFrame:
        with reading(self.subject):
            return self.rows.filter(condition).collect(engine="streaming")


@dataclass(frozen=True)
class _Matching:
    """Some rows of a state that is compared."""

    state: StateRows
    which: pl.Expr

    @property
    def subject(self) -> str:
        return self.state.subject

    @property
    def bytes(self) -> int:
        return self.state.bytes

    @property
    def kinds(self) -> Mapping[str, pl.DataType]:
        return self.state.kinds

    def matching(self, condition: pl.Expr) -> pl.DataFrame:
        return self.state.matching(condition & self.which)


def _open(table: Place, none: pl.LazyFrame, which: pl.Expr | None) -> _Table:
    if not is_table(table):
        return _Table(str(table), none)
    if which is None:
        return _Table(str(table), scan_table(table), sum(named_files(DeltaTable(str(table))).values()))
    rows, sizes = rows_with(table, which)
    return _Table(str(table), rows, sum(sizes.values()))


def _diff(
    schema: pa.Schema,
    key: Sequence[str],
    before: "StateRows | _Table | _Matching",
    after: "StateRows | _Table | _Matching",
    pieces: Callable[[], Iterator[Piece]] | None = None,
) -> Difference:
    columns = [name for name, kind in before.kinds.items() if after.kinds.get(name) == kind and name not in key]
    not_compared = tuple(name for name in {**before.kinds, **after.kinds} if name not in columns and name not in key)
    passes = 1 + (before.bytes + after.bytes) // _BYTES_A_PASS

    def all_rows() -> Iterator[Piece]:
        for number in range(passes):
            # A row without a match in a join has NULL in a column by which rows are compared, and no hash then.
            condition = (key_hash(tuple(key)) % passes).fill_null(0) == number
            yield before.matching(condition), after.matching(condition)

    compared = [schema.field(name) for name in columns] or [pa.field("there", pa.bool_())]
    rows = pa.list_(pa.struct(compared))
    fields = [*(schema.field(name) for name in key), pa.field("change", pa.string())]
    shown = pa.schema([*fields, pa.field("before", rows), pa.field("after", rows)])
    return Difference(
        before.subject, after.subject, tuple(key), tuple(columns), not_compared, shown, pieces or all_rows
    )


def _unshared(before: StateRows, after: StateRows) -> Iterator[Piece]:
    none = empty(before.schema)
    with unreadable(f"{before.subject} and {after.subject}"):
        for label in sorted(before.manifests.keys() | after.manifests.keys()):
            was, now = (
                Manifest.unpack(rows.manifests[label]) if label in rows.manifests else Manifest(0)
                for rows in (before, after)
            )
            for old, new in rows_of_unshared_parts(was, now, before.parts):
                yield none if old is None else old.drop(SLOT), none if new is None else new.drop(SLOT)


def rows_of_unshared_parts(
    before: Manifest, after: Manifest, folder: Place
) -> Iterator[tuple[pl.DataFrame | None, pl.DataFrame | None]]:
    """Yield all rows, before and after, of the slots in parts of a partition that only one of two manifests has.

    The rows of all other slots are equal, since shared parts are in the same order in both.
    """
    files = [{part.file or part.payload for part in manifest.parts} for manifest in (before, after)]
    unshared = [
        part
        for part in (*before.parts, *after.parts)
        if not all((part.file or part.payload) in of_manifest for of_manifest in files)
    ]
    marks, was, now = Layers(Manifest(0, 0, (), tuple(unshared)), folder), Layers(before, folder), Layers(after, folder)
    for begin, end in marks.ranges():
        wanted = NO_SLOTS
        for source in marks.sources:
            wanted = union(wanted, distinct(source.between(begin, end, [SLOT])[SLOT].to_numpy()))
        if wanted.size:
            yield was.of(wanted), now.of(wanted)


def _differing(before: pl.DataFrame, after: pl.DataFrame, key: list[str], columns: list[str]) -> pl.DataFrame | None:
    """Return the keys that differ, how, and in which columns; None if a key has several rows, which have no order."""
    if any(rows.select(key).is_duplicated().any() for rows in (before, after)):
        return None
    was, now = (
        rows.select(*key, *(pl.col(name).alias(f"{side} {name}") for name in columns), pl.lit(value=True).alias(side))
        for side, rows in (("#before", before), ("#after", after))
    )
    both = was.join(now, on=key, how="full", nulls_equal=True, coalesce=True)
    change = pl.when(pl.col("#before").is_null()).then(pl.lit("added"))
    change = change.when(pl.col("#after").is_null()).then(pl.lit("removed")).otherwise(pl.lit("changed"))
    values = (pl.col(f"#before {name}").ne_missing(pl.col(f"#after {name}")).alias(_differs(name)) for name in columns)
    is_other = pl.any_horizontal(pl.lit(value=False), *map(_differs, columns))
    # Of a key that only one has, all columns are NULL in the other, which counts for no column.
    return both.select(*key, change.alias("change"), *values).filter((pl.col("change") != "changed") | is_other)


def _differing_of_lists(changed: pl.DataFrame, key: list[str], columns: list[str]) -> pl.DataFrame:
    """Return the keys that differ as `_differing` does, of the rows that `_changed` returns."""
    values = (_values("before", name).ne_missing(_values("after", name)).alias(_differs(name)) for name in columns)
    return changed.select(*key, "change", *values)


def _differs(name: str) -> str:
    """Return the column that says whether a column differs."""
    return f"#differs {name}"


def _head(rows: pl.DataFrame, limit: int, of_each: Sequence[str], key: list[str]) -> pl.DataFrame:
    if not limit or not rows.height:
        return rows.clear()
    ordered = rows.sort(*of_each, *key)
    head = ordered.group_by(of_each, maintain_order=True).head(limit) if of_each else ordered.head(limit)
    return head.select(rows.columns)


def _changed(before: pl.DataFrame, after: pl.DataFrame, key: list[str], columns: list[str]) -> pl.DataFrame:
    """Return a row for each key that differs. NaN equals NaN, and NULL equals NULL; a key's rows have no order."""
    was, now = (_by_key(rows, key, columns, name) for name, rows in (("before", before), ("after", after)))
    both = was.join(now, on=key, how="full", nulls_equal=True, coalesce=True)
    change = pl.when(pl.col("before").is_null()).then(pl.lit("added"))
    change = change.when(pl.col("after").is_null()).then(pl.lit("removed")).otherwise(pl.lit("changed"))
    differs = pl.col("before").ne_missing(pl.col("after"))
    return both.filter(differs).select(*key, change.alias("change"), "before", "after")


def _by_key(rows: pl.DataFrame, key: list[str], columns: list[str], name: str) -> pl.DataFrame:
    nested = [name for name in columns if rows.schema[name].is_nested()]
    # Polars does not sort lists.
    text = [json_lines(rows.select(nested)).alias(_TEXT)] if nested else []
    order = [*(name for name in columns if name not in nested), *(column.name for column in text)]
    rows = rows.with_columns(*text, pl.lit(value=True).alias(_THERE))
    rows = rows.sort(order) if order else rows
    inner = pl.struct(columns or pl.col(_THERE).alias("there"))
    return rows.group_by(key, maintain_order=True).agg(inner.alias(name))


def _values(rows: str, name: str) -> pl.Expr:
    return pl.col(rows).list.eval(pl.element().struct.field(name))
