"""Read all `transformWithState` variables of a Spark query, with one row for each key."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, cast

import polars as pl
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from keyfold.errors import KeyfoldError
from keyfold.state.reading.failures import explained
from keyfold.state.reading.spark_checkpoint import TTL, check_batch, describe_parts, parts_of, rows_of_keys
from keyfold.state.reading.state_rows import OnWorker, RowsOnWorkers
from keyfold.state.reading.state_source import read_source
from keyfold.state.rows.keys import select_columns

_KEPT = {"ValueState": "value", "ListState": "list_value", "MapState": "map_value"}
_KEY = "#key"
"""Column of the key's struct, with a name that no variable has."""


@dataclass(frozen=True)
class VariableRows(RowsOnWorkers):
    """A checkpoint's state with one row for each key: the columns of the key, and a column for each variable.

    Attributes:
        key: columns of the key.
    """

    _where: str
    key: tuple[str, ...]
    _frame: DataFrame

    @property
    def where(self) -> str:
        """Describes the state, for messages."""
        return self._where

    @property
    def schema(self) -> pa.Schema:
        return to_arrow_schema(self._frame.schema)

    def select(self, columns: Mapping[str, str]) -> "VariableRows":
        """Return the key and some variables only.

        Args:
            columns: the variables, with their new names.

        Raises:
            KeyfoldError: there is no such variable, or two have the same name.
        """
        wanted = {**{name: name for name in self.key}, **columns}
        key = tuple(wanted[name] for name in self.key)
        return VariableRows(self.where, key, select_columns(self._frame, wanted, self.where))

    def spark(self) -> DataFrame:
        """Return the rows as a Spark frame."""
        return self._frame

    def worked(self, work: OnWorker, schema: pa.Schema) -> DataFrame:
        """Apply a function to each worker's frames of rows; returns a Spark frame with the schema of its results."""

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return work(cast(pl.DataFrame, pl.from_arrow(batch)) for batch in batches if batch.num_rows)

        return self._frame.mapInArrow(run, from_arrow_schema(schema))


def read_variables(
    spark: SparkSession,
    checkpoint: Path | str,
    *,
    operator: int | None = None,
    batch: int | None = None,
    keys: Iterable[Mapping[str, Any]] = (),
) -> VariableRows:
    """Read all `transformWithState` variables of each key.

    A value or a list element with a single field becomes that field's value. A map becomes a list of objects with `key` and
    `value`. Timers and times to live are left out.

    Args:
        checkpoint: its folder, or a URL of another file system.
        operator: the operator; may be left out if there is only one.
        batch: the batch after which the state is read; the last by default.
        keys: values of the key's columns; returns the rows that match any of them.

    Raises:
        KeyfoldError: there is no checkpoint or no such batch, or not exactly one operator has variables.

    Example:
        >>> read_variables(spark, "/checkpoints/sales").spark().show()  # doctest: +SKIP
    """
    where, parts = f"checkpoint {checkpoint}", parts_of(spark, checkpoint)
    having = [one for one in parts if one.kind in _KEPT and operator in (None, one.operator)]
    if len({one.operator for one in having}) != 1:
        raise KeyfoldError(
            f"{where}: keyed-json needs the state variables of one operator, and it has {describe_parts(parts)}; "
            "name an operator with --operator, or read a part as jsonl"
        )
    check_batch(checkpoint, having[0], batch)
    frames: list[DataFrame] = []
    for one in having:
        collections = {} if one.kind == "ValueState" else {"flattenCollectionTypes": "false"}
        options = {"operatorId": one.operator, "batchId": batch, **one.options, **collections}
        with explained(f"{where}, {one.name}"):
            frame = read_source(spark, checkpoint, "statestore", **options)
        kept = _KEPT[one.kind]
        frames.append(
            frame.select(F.col("key").alias(_KEY), _bare(F.col(kept), frame.schema[kept].dataType).alias(one.name))
        )
    key = cast(StructType, frames[0].schema[_KEY].dataType).fieldNames()
    union = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    # The union has a row for each key and variable, with NULL in the columns of other variables.
    # Each variable has at most one row per key, so `first` takes its only value.
    rows = union.groupBy(_KEY).agg(*(F.first(f"`{one.name}`", ignorenulls=True).alias(one.name) for one in having))
    columns = [F.col(_KEY)[name].alias(name) for name in key]
    columns += [F.col(f"`{one.name}`").alias(f"value_{one.name}" if one.name in key else one.name) for one in having]
    return VariableRows(where, tuple(key), rows_of_keys(rows.select(*columns), [dict(one) for one in keys], checkpoint))


def _bare(value: Column, kind: DataType) -> Column:
    """Return a variable's value without the structs that Spark wraps it in."""
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(value, lambda one: _bare(one, element))
    if isinstance(kind, MapType):
        named, valued = kind.keyType, kind.valueType
        return F.transform(
            F.map_entries(value),
            lambda one: F.struct(_bare(one["key"], named).alias("key"), _bare(one["value"], valued).alias("value")),
        )
    if isinstance(kind, StructType) and kind.fieldNames() == ["value", TTL]:
        return _bare(value["value"], kind["value"].dataType)
    return value[kind.names[0]] if isinstance(kind, StructType) and len(kind) == 1 else value
