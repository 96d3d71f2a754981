"""Compare the rows of two tables: added, removed and changed rows, and the columns that changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable
from keyfold.lakehouse.frames import table_frame
from keyfold.storage.place import Place

_SAMPLES = 5
_OLD, _NEW = "old", "new"


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


def compare_outputs(
    spark: SparkSession, job: KeyedJob, before: Generation, after: Generation
) -> tuple[TableDifference, ...]:
    """Compare all tables of two generations of a job, with the late table. A missing table counts as empty."""
    return tuple(
        compare_tables(spark, table.name, before.table(table.name), after.table(table.name), pairing(job, table))
        for table in job.tables
    )


def pairing(job: KeyedJob, table: OutputTable) -> tuple[str, ...]:
    """Return the columns that identify a row in both tables: the table's key, or else the job's key and the event time."""
    if table.key:
        return table.key
    return tuple(name for name in (*job.key, job.event_time) if name in table.schema.names)


def compare_tables(
    spark: SparkSession, name: str, before: Place, after: Place, pair_by: Sequence[str]
) -> TableDifference:
    """Compare two Delta tables on the cluster.

    Rows that are equal in all columns are matched first. Of the other rows, a pair with the same values of `pair_by` counts as
    changed, if each table has only one such row. Missing columns count as NULL.
    """
    left, right = _read(spark, before), _read(spark, after)
    if left is None or right is None:
        either = left if left is not None else right
        columns = [] if either is None else either.columns
        left = left if left is not None else _none_of(either)
        right = right if right is not None else _none_of(either)
    else:
        columns = [*left.columns, *(name for name in right.columns if name not in left.columns)]
    if left is None or right is None:
        return TableDifference(name, 0, 0, 0, 0, 0, 0, {}, pl.DataFrame())
    left, right = _in_columns(left, right, columns), _in_columns(right, left, columns)
    rows_before, rows_after = left.count(), right.count()
    # `exceptAll` also finds rows that one table has more often. Cached, since each of the following queries would compare all
    # rows again.
    gone, new = left.exceptAll(right).cache(), right.exceptAll(left).cache()
    try:
        only_before, only_after = gone.count(), new.count()
        pairs = _pairs(gone, new, [one for one in pair_by if one in columns])
        changed, by_column = (0, {}) if pairs is None else _changes(pairs, columns)
        samples = _samples(gone, new, pairs, columns)
    finally:
        gone.unpersist()
        new.unpersist()
    return TableDifference(
        table=name,
        rows_before=rows_before,
        rows_after=rows_after,
        same=rows_before - only_before,
        added=only_after - changed,
        removed=only_before - changed,
        changed=changed,
        changed_columns=by_column,
        samples=samples,
    )


def _read(spark: SparkSession, path: Place) -> DataFrame | None:
    return table_frame(spark, path) if path.exists() else None


def _none_of(rows: DataFrame | None) -> DataFrame | None:
    return None if rows is None else rows.where(F.lit(False))


def _in_columns(rows: DataFrame, other: DataFrame, columns: Sequence[str]) -> DataFrame:
    there = set(rows.columns)
    lacking = {name: F.lit(None).cast(other.schema[name].dataType) for name in columns if name not in there}
    return rows.select([lacking[name].alias(name) if name in lacking else F.col(f"`{name}`") for name in columns])


def _pairs(gone: DataFrame, new: DataFrame, pair_by: Sequence[str]) -> DataFrame | None:
    """Return pairs of rows with the same values in these columns, as structs `old` and `new`; each side has one such row."""
    if not pair_by:
        return None
    left, right = _single(gone, pair_by, _OLD), _single(new, pair_by, _NEW)
    # Null-safe: two NULLs are equal here.
    same = reduce(and_, [left[_OLD][name].eqNullSafe(right[_NEW][name]) for name in pair_by])
    return left.join(right, same, "inner")


def _single(rows: DataFrame, pair_by: Sequence[str], alias: str) -> DataFrame:
    every = F.struct(*(F.col(f"`{name}`") for name in rows.columns))
    grouped = rows.groupBy(*(f"`{name}`" for name in pair_by)).agg(
        F.count("*").alias("#rows"), F.first(every).alias(alias)
    )
    return grouped.where(F.col("#rows") == 1).select(alias)


def _changes(pairs: DataFrame, columns: Sequence[str]) -> tuple[int, dict[str, int]]:
    differs = {name: ~F.col(_OLD)[name].eqNullSafe(F.col(_NEW)[name]) for name in columns}
    row = pairs.agg(
        F.count("*").alias("#pairs"),
        *(F.sum(condition.cast("long")).alias(name) for name, condition in differs.items()),
    ).first()
    assert row is not None  # noqa: S101 - an aggregate over all rows has one
    return int(row["#pairs"]), {name: int(row[name]) for name in columns if row[name]}


def _samples(gone: DataFrame, new: DataFrame, pairs: DataFrame | None, columns: Sequence[str]) -> pl.DataFrame:
    """Return a few rows of each kind of difference, sorted."""
    samples: list[DataFrame] = []
    paired = [] if pairs is None else [pairs.select(f"{side}.*") for side in (_OLD, _NEW)]
    if pairs is not None:
        some = pairs.orderBy(_OLD).limit(_SAMPLES)
        samples += [some.select(F.lit(f"changed, {side}").alias("difference"), f"{side}.*") for side in (_OLD, _NEW)]
    for number, (what, rows) in enumerate((("removed", gone), ("added", new))):
        alone = rows.exceptAll(paired[number]) if paired else rows
        some = alone.orderBy(*(f"`{name}`" for name in columns)).limit(_SAMPLES)
        samples.append(some.select(F.lit(what).alias("difference"), *(f"`{name}`" for name in columns)))
    arrow = reduce(DataFrame.unionByName, samples).toArrow()
    frame = pl.from_arrow(arrow)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union of frame and series
    return frame
