"""Compare two states, or a state and a table: which keys were added, removed and changed, and how.

Spark joins the typed rows. The driver counts a small difference of two batches itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from keyfold.errors import InvalidData, NotFound
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.foreign import check_files_are_inside, check_no_link_leads_out
from keyfold.lakehouse.frames import table_frame
from keyfold.state.differences.diff_by_parts import EQUAL, SIDE, counts_of_small_difference, differing_rows, share_parts
from keyfold.state.making.sources import ENDINGS
from keyfold.state.reading.export import Export, Format, write_frame
from keyfold.state.reading.failures import explained
from keyfold.state.reading.state_rows import StateRows
from keyfold.storage.place import to_place

Change = Literal["added", "removed", "changed"]

_SPARK_FORMATS = {"parquet": "parquet", "csv": "csv", "jsonl": "json"}


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
    """A comparison of two states, which is computed when a method is called.

    Attributes:
        before, after: descriptions of the two states.
        key: columns of the key.
        columns: columns that are compared, without the key.
        not_compared: columns that only one of them has, or that have different types.
    """

    before: str
    after: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    not_compared: tuple[str, ...]
    _joined: Callable[[bool], DataFrame]
    _counted: Callable[[], dict[str, int] | None] = lambda: None

    def summary(self) -> DiffSummary:
        """Count added, removed, changed and unchanged keys.

        Raises:
            KeyfoldError: one of the two cannot be read.
        """
        with explained(self._where):
            counts = self._counted() or self._counts()
        columns = {name: counts[f"column {name}"] for name in self.columns if counts[f"column {name}"]}
        keys = {name: count for name, count in counts.items() if not name.startswith("column ")}
        return DiffSummary(self.before, self.after, **keys, columns=columns, not_compared=self.not_compared)

    def rows(self) -> DataFrame:
        """Return a row for each key that differs: key, `change` (added, removed, changed), and rows `before` and `after`."""
        before, after = F.col("before"), F.col("after")
        change = F.when(before.isNull(), "added").when(after.isNull(), "removed").otherwise("changed")
        differs = self._joined(False).where(~before.eqNullSafe(after))
        return differs.select(*self.key, change.alias("change"), "before", "after")

    def first_rows(self, limit: int) -> pl.DataFrame:
        """Return the first of `rows`, sorted by key.

        Raises:
            KeyfoldError: one of the two cannot be read.
        """
        with explained(self._where):
            rows = pl.from_arrow(self.rows().orderBy(*self.key).limit(limit).toArrow())
        assert isinstance(rows, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union
        return rows

    def write(self, to: Path | str, style: Format) -> Export:
        """Write `rows` to a table or to files.

        Raises:
            KeyfoldError: the path has files already, or one of the two cannot be read.
        """
        return write_frame(self.rows(), to, style, self._where)

    @property
    def _where(self) -> str:
        return f"{self.before} against {self.after}"

    def _counts(self) -> dict[str, int]:
        """Count keys, and as `column NAME` the changed keys in which a column differs."""
        was, same = F.col("before").isNotNull(), F.col("before").eqNullSafe(F.col("after"))
        is_now = F.col("after").isNotNull()
        stays = was & is_now
        conditions = {
            "keys_before": was,
            "keys_after": is_now,
            "added": ~was & is_now,
            "removed": was & ~is_now,
            "changed": stays & ~same,
            "unchanged": stays & same,
            **{f"column {name}": stays & ~same & ~self._alike(name) for name in self.columns},
        }
        sums = [F.count_if(condition).alias(name) for name, condition in conditions.items()]
        row = self._joined(True).agg(*sums, F.coalesce(F.sum(EQUAL), F.lit(0)).alias(EQUAL)).collect()[0]
        # Keys that are equal by their shared parts are counted without being joined.
        shared: dict[str, int] = dict.fromkeys(("keys_before", "keys_after", "unchanged"), row[EQUAL])
        return {name: row[name] + shared.get(name, 0) for name in conditions}

    def _alike(self, column: str) -> Column:
        def values(side: str) -> Column:
            return F.transform(F.col(side), lambda row: row[column])

        return values("before").eqNullSafe(values("after"))


def diff_states(before: StateRows, after: StateRows) -> StateDiff:
    """Compare two states: of two batches, two generations, a generation and a branch, or two jobs with the same key.

    Raises:
        KeyfoldError: their keys have different columns.

    Example:
        >>> was = read_state(spark, lakehouse, "ride_summaries", batch=3)  # doctest: +SKIP
        >>> diff_states(was, read_state(spark, lakehouse, "ride_summaries")).summary().changed  # doctest: +SKIP
    """
    if before.key != after.key:
        raise InvalidData(
            f"{before.where} has the key {', '.join(before.key)} and {after.where} {', '.join(after.key)}: states with "
            "different keys cannot be compared"
        )
    if share_parts(before, after):
        return _diff_by_parts(before, after)
    return _diff(before.where, before.spark(), after.where, after.spark(), before.key)


def _diff_by_parts(before: StateRows, after: StateRows) -> StateDiff:
    columns = tuple(name for name in before.schema.names if name not in before.key)

    def joined(count: bool) -> DataFrame:
        def side(number: int, name: str) -> Column:
            rows_of_side = F.collect_list(F.when(F.col(SIDE) == number, _row(columns)))
            # As in `_diff`: sorted, and NULL for a key without rows on this side.
            return F.when(F.size(rows_of_side) > 0, F.sort_array(rows_of_side)).alias(name)

        rows = differing_rows(before, after, count=count)
        key = [F.col(f"`{name}`") for name in before.key]
        return rows.groupBy(*key).agg(side(0, "before"), side(1, "after"), F.sum(EQUAL).alias(EQUAL))

    return StateDiff(
        before.where,
        after.where,
        before.key,
        columns,
        (),
        joined,
        lambda: counts_of_small_difference(before, after),
    )


def diff_with_table(state: StateRows, lakehouse: Lakehouse, table: str) -> StateDiff:
    """Compare a state (before) with a table (after), in the columns that both have.

    Args:
        state: the state of a job.
        lakehouse: the lakehouse, whose tables can be named.
        table: a name that `keyfold show` takes, or the path of a Delta table, or of Parquet, CSV or JSON files. Values are
            cast to the state's types.

    Raises:
        KeyfoldError: there is no such table, or it lacks a column of the key.
    """
    rows = state.spark()
    table_rows = _table(rows.sparkSession, lakehouse, table)
    if lacking := [column for column in state.key if column not in table_rows.columns]:
        raise InvalidData(f"{table} has no column {', '.join(lacking)}, of the key of {state.where}")
    kinds = {one.name: one.dataType for one in rows.schema.fields}
    typed = table_rows.select(
        # A plain cast would fail the comparison if one value does not fit; such a value is a difference.
        [F.col(f"`{name}`").try_cast(kinds[name]).alias(name) for name in table_rows.columns if name in kinds]
        + [F.col(f"`{name}`") for name in table_rows.columns if name not in kinds]
    )
    return _diff(state.where, rows, f"table {table}", typed, state.key)


def _diff(before: str, left: DataFrame, after: str, right: DataFrame, key: Sequence[str]) -> StateDiff:
    types_left, types_right = _types(left.schema), _types(right.schema)
    columns = tuple(name for name in types_left if types_right.get(name) == types_left[name] and name not in key)
    all_columns = dict.fromkeys([*types_left, *types_right])
    not_compared = tuple(name for name in all_columns if name not in columns and name not in key)
    joined = _by_key(left, key, columns, "before").join(_by_key(right, key, columns, "after"), list(key), "full_outer")
    # The join has all keys, so no keys are counted apart.
    joined = joined.withColumn(EQUAL, F.lit(0))
    return StateDiff(before, after, tuple(key), columns, not_compared, lambda count: joined)


def _by_key(rows: DataFrame, key: Sequence[str], columns: Sequence[str], name: str) -> DataFrame:
    """Collect the rows of each key as a sorted array, since they have no order."""
    sorted_rows = F.sort_array(F.collect_list(_row(columns)))
    return rows.groupBy(*(F.col(f"`{column}`") for column in key)).agg(sorted_rows.alias(name))


def _row(columns: Sequence[str]) -> Column:
    # Without columns to compare, all rows of a key are alike: structs with the same constant.
    return F.struct(*(F.col(f"`{column}`") for column in columns)) if columns else F.struct(F.lit(True).alias("there"))


def _types(schema: StructType) -> dict[str, str]:
    return {one.name: one.dataType.simpleString() for one in schema.fields}


def _table(spark: SparkSession, lakehouse: Lakehouse, table: str) -> DataFrame:
    if (known := lakehouse.tables().get(table)) is not None:
        return table_frame(spark, known)
    path = to_place(table).expanduser()
    if not path.exists():
        raise NotFound(f"no table and no path {table!r}; tables: {', '.join(lakehouse.tables()) or 'none yet'}")
    if (path / "_delta_log").is_dir():
        # Spark would read any absolute path in the log.
        check_files_are_inside(path)
        return spark.read.format("delta").load(str(path))
    files = [file for file in path.rglob("*") if file.suffix in ENDINGS] if path.is_dir() else [path]
    if path.is_dir():
        check_no_link_leads_out(path, files)
    ends = files[0].suffix if files else ""
    if ends not in ENDINGS:
        raise InvalidData(f"{path} is neither a Delta table nor Parquet, CSV or JSON files ({', '.join(ENDINGS)})")
    return spark.read.option("header", "true").format(_SPARK_FORMATS[ENDINGS[ends]]).load(str(path))
