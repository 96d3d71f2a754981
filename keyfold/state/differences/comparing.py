"""Compare the rows of two tables: added, removed and changed rows, and the columns that changed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from deltalake import DeltaTable

from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.rows.hashing import key_hash
from keyfold.lakehouse.paths import is_table
from keyfold.lakehouse.reading import scan_table
from keyfold.storage.place import Place

_SAMPLES = 5
_BYTES_A_PASS = 256 << 20
_TIMES, _NEW = "#times", "#new"


@dataclass(frozen=True)
class TableDifference:
    """The difference of two tables.

    Attributes:
        table: name of the table.
        rows_before, rows_after: number of rows of each.
        same: number of rows that both have.
        added, removed: number of rows that only one of them has.
        changed: number of rows with the same pairing columns and other values.
        changed_columns: number of changed rows in which each column differs.
        samples: some rows that differ, with `difference` (added, removed, changed); of a changed row the old and the new one.
    """

    table: str
    rows_before: int
    rows_after: int
    same: int
    added: int
    removed: int
    changed: int
    changed_columns: dict[str, int]
    samples: pl.DataFrame

    @property
    def is_none(self) -> bool:
        """Whether both have the same rows."""
        return not (self.added or self.removed or self.changed)


def compare_outputs(job: KeyedJob, before: Generation, after: Generation) -> tuple[TableDifference, ...]:
    """Compare all tables of two generations of a job, with the late table. A missing table counts as empty."""
    return tuple(
        compare_tables(table.name, before.table(table.name), after.table(table.name), pairing(job, table))
        for table in job.tables
    )


def pairing(job: KeyedJob, table: OutputTable) -> tuple[str, ...]:
    """Return the columns that identify a row in both tables: the table's key, or else the job's key and the event time."""
    if table.key:
        return table.key
    return tuple(name for name in (*job.key, job.event_time) if name in table.schema.names)


def compare_tables(name: str, before: Place, after: Place, pair_by: Sequence[str]) -> TableDifference:
    """Compare two Delta tables, in as many passes over hashes of the pairing columns as memory needs.

    Rows that are equal in all columns are matched first. Of the other rows, a pair with the same values of `pair_by` counts as
    changed, if each table has only one such row. Missing columns count as NULL.
    """
    tables = [place for place in (before, after) if is_table(place)]
    left, right = (scan_table(place) if place in tables else None for place in (before, after))
    kinds = {name: kind for rows in (right, left) if rows is not None for name, kind in rows.collect_schema().items()}
    sides = [
        pl.LazyFrame(schema=kinds) if rows is None else _in_columns(rows, kinds).select(list(kinds))
        for rows in (left, right)
    ]
    by = [one for one in pair_by if one in kinds]
    passes = 1 + sum(_size(place) for place in tables) // _BYTES_A_PASS
    counts, samples = Counter[str](), list[pl.DataFrame]()
    for number in range(passes if kinds else 0):
        condition = key_hash(tuple(by or kinds)) % passes == number
        was, now = (rows.filter(condition).collect(engine="streaming") for rows in sides)
        counts.update(before=was.height, after=now.height)
        samples.append(_compare(was, now, by, counts))
    order = by + [name for name, kind in kinds.items() if name not in by and not kind.is_nested()]
    shown = [
        one.filter(difference=kind).sort(order).head(_SAMPLES)
        for one in ([pl.concat(samples)] if samples else [])
        for kind in ("changed, old", "changed, new", "removed", "added")
    ]
    return TableDifference(
        table=name,
        rows_before=counts["before"],
        rows_after=counts["after"],
        same=counts["before"] - counts["removed"] - counts["changed"],
        added=counts["added"],
        removed=counts["removed"],
        changed=counts["changed"],
        changed_columns={name: counts[f"column {name}"] for name in kinds if counts[f"column {name}"]},
        samples=pl.concat(shown) if shown else pl.DataFrame(),
    )


def _compare(was: pl.DataFrame, now: pl.DataFrame, by: Sequence[str], counts: Counter[str]) -> pl.DataFrame:
    """Count the differences of rows; returns samples of each kind."""
    columns = was.columns
    both = pl.concat([was.with_columns(pl.lit(-1).alias(_TIMES)), now.with_columns(pl.lit(1).alias(_TIMES))])
    # A table may have the same row several times.
    times = both.group_by(columns).agg(pl.col(_TIMES).sum())
    gone, new = (
        times.filter(pl.col(_TIMES).sign() == sign).select(pl.all().repeat_by(pl.col(_TIMES).abs()).explode())
        for sign in (-1, 1)
    )
    gone, new = gone.select(columns), new.select(columns)
    old, changed = gone.clear(), new.clear()
    if by:
        single = [rows.filter(pl.struct(by).is_unique()).select(by) for rows in (gone, new)]
        keys = single[0].join(single[1], on=by, nulls_equal=True)
        old, changed = (rows.join(keys, on=by, how="semi", nulls_equal=True).sort(by) for rows in (gone, new))
        gone, new = (rows.join(keys, on=by, how="anti", nulls_equal=True) for rows in (gone, new))
        counts.update({f"column {name}": int(old[name].ne_missing(changed[name]).sum()) for name in columns})
    counts.update(removed=gone.height, added=new.height, changed=old.height)
    order = [*by, *(name for name in columns if name not in by and not was.schema[name].is_nested())]
    kinds = {"changed, old": old, "changed, new": changed, "removed": gone, "added": new}
    return pl.concat(
        rows.sort(order).head(_SAMPLES).select(pl.lit(kind).alias("difference"), pl.all())
        for kind, rows in kinds.items()
    )


def _in_columns(rows: pl.LazyFrame, kinds: dict[str, pl.DataType]) -> pl.LazyFrame:
    there = rows.collect_schema()
    return rows.with_columns(pl.lit(None, kind).alias(name) for name, kind in kinds.items() if name not in there)


def _size(table: Place) -> int:
    return sum(DeltaTable(str(table)).get_add_actions(flatten=True)["size_bytes"].to_pylist())
