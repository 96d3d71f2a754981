"""Read the state of any Spark streaming query from its checkpoint, with Spark's own state data source.

A *part* of state has rows with the same columns: a variable of `transformWithState`, its `timers`, a side of a stream-stream
join (`left`, `right`), or the store of an aggregation or a de-duplication (`default`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from tempfile import TemporaryDirectory
from typing import Any, cast

import polars as pl
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from keyfold.errors import InvalidData, KeyfoldError, NotFound
from keyfold.session.checkpoint_view import explained, view_of
from keyfold.storage.place import Place

TIMERS = "timers"
_TTL = "ttlExpirationMs"
_KEPT = {"ValueState": "value", "ListState": "list_value", "MapState": "map_value"}
_DESCRIBED = ("operatorId", "operatorName", "numPartitions", "minBatchId", "maxBatchId")
_KEY = "#key"
"""Column of the key's struct, with a name that no variable has."""


@dataclass(frozen=True)
class CheckpointPart:
    """A part of a checkpoint's state.

    Attributes:
        operator, operator_name: the stateful operator.
        name: name of the part.
        kind: `ValueState`, `ListState`, `MapState`, `TimerState`, `join side` or `store`.
        partitions: number of state partitions.
        first_batch, last_batch: the first and the last batch that are retained.
        options: options of Spark's data source to read it.
    """

    operator: int
    operator_name: str
    name: str
    kind: str
    partitions: int
    first_batch: int
    last_batch: int
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckpointRows:
    """Rows of a checkpoint's state; they are read when they are used.

    Attributes:
        where: describes the rows, for messages.
        key: columns of the key; none for rows of a single part.
    """

    where: str
    key: tuple[str, ...]
    _frame: DataFrame
    _view: "TemporaryDirectory[str]"

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return self._frame.limit(0).toArrow().schema

    def select(self, columns: Mapping[str, str]) -> "CheckpointRows":
        """Return the columns of the key and some others, with their new names.

        Raises:
            KeyfoldError: there is no such column, or two would have the same name.
        """
        wanted, there = {**{name: name for name in self.key}, **columns}, self._frame.columns
        if unknown := [name for name in columns if name not in there]:
            raise InvalidData(f"{self.where}: no column {', '.join(unknown)}; there are {', '.join(there)}")
        names = list(wanted.values())
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidData(f"{self.where}: two columns would have the name {', '.join(twice)}; give each its own")
        frame = self._frame.select(*(F.col(f"`{old}`").alias(new) for old, new in wanted.items()))
        return replace(self, key=tuple(wanted[name] for name in self.key), _frame=frame)

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield the rows, of one partition after the other.

        Raises:
            KeyfoldError: the state cannot be read.
        """
        with explained(self.where):
            for row in self._frame.mapInArrow(_as_bytes, "rows binary").toLocalIterator():
                yield cast(pl.DataFrame, pl.from_arrow(pa.ipc.open_stream(row[0]).read_all()))

    def polars(self) -> pl.DataFrame:
        """Return all rows as one frame."""
        return pl.concat([cast(pl.DataFrame, pl.from_arrow(self.schema.empty_table())), *self.frames()])


def checkpoint_parts(spark: SparkSession, checkpoint: Place | str) -> list[CheckpointPart]:
    """Return the parts of a checkpoint's state.

    Raises:
        KeyfoldError: there is no checkpoint, it cannot be read, or its query has no state.
    """
    with view_of(spark, checkpoint) as view:
        return _parts(spark, checkpoint, view)


def read_checkpoint(
    spark: SparkSession,
    checkpoint: Place | str,
    part: str | None = None,
    *,
    operator: int | None = None,
    batch: int | None = None,
    keys: Iterable[Mapping[str, Any]] = (),
) -> CheckpointRows:
    """Read a part of a checkpoint's state, for all operators that have it. An element of a list or map is a row.

    Args:
        checkpoint: its folder, or its URL in a bucket, which is copied to this machine first.
        part: name of the part; may be left out if there is only one.
        operator: read this operator only; if it does not have the part and another one does, there are no rows.
        batch: the batch after which the state is read; the last by default.
        keys: values of columns; returns the rows that match any of them.

    Returns:
        Columns `operator`, those of the key, and those of the value; `expires_at` for timers, `ttl_expires_at` for state with
        a TTL.

    Raises:
        KeyfoldError: there is no checkpoint, no such part in any operator, or no such batch; names those that exist.
    """
    where, view = f"checkpoint {checkpoint}", view_of(spark, checkpoint)
    parts = _parts(spark, checkpoint, view.name)
    names = sorted({one.name for one in parts})
    if part is None and len(names) > 1:
        raise NotFound(f"{where} has several parts of state, name one: {_described(parts)}")
    having = [one for one in parts if one.name == (part or names[0])]
    if not having:
        raise NotFound(f"{where} has no state {part!r}; it has {_described(parts)}")
    if operator is not None and operator not in {one.operator for one in parts}:
        raise NotFound(f"{where} has no operator {operator} with state; it has {_described(parts)}")
    frames = [_flat(_read(spark, where, view.name, one, batch), one.operator) for one in having]
    # Parts of the same name may have other columns in another operator; these are the same, whichever is asked for.
    rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    rows = rows if operator is None else rows.where(F.col("operator") == operator)
    return CheckpointRows(where, (), _of_keys(where, rows, list(keys)), view)


def read_variables(
    spark: SparkSession,
    checkpoint: Place | str,
    *,
    operator: int | None = None,
    batch: int | None = None,
    keys: Iterable[Mapping[str, Any]] = (),
) -> CheckpointRows:
    """Read all `transformWithState` variables, with one row for each key.

    A value or a list element with a single field becomes that field's value. A map becomes a list of objects with `key` and
    `value`. Timers and times to live are left out. Arguments are those of `read_checkpoint`.

    Raises:
        KeyfoldError: as `read_checkpoint`, or not exactly one operator has variables.
    """
    where, view = f"checkpoint {checkpoint}", view_of(spark, checkpoint)
    parts = _parts(spark, checkpoint, view.name)
    having = [one for one in parts if one.kind in _KEPT and operator in (None, one.operator)]
    if len({one.operator for one in having}) != 1:
        raise KeyfoldError(
            f"{where}: keyed-json needs the state variables of one operator, and it has {_described(parts)}; "
            "name an operator with --operator, or read a part as jsonl"
        )
    frames: list[DataFrame] = []
    for one in having:
        collections = {} if one.kind == "ValueState" else {"flattenCollectionTypes": "false"}
        frame, kept = _read(spark, where, view.name, one, batch, **collections), _KEPT[one.kind]
        value = _bare(F.col(kept), frame.schema[kept].dataType)
        frames.append(frame.select(F.col("key").alias(_KEY), value.alias(one.name)))
    key = cast(StructType, frames[0].schema[_KEY].dataType).fieldNames()
    union = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    # Each variable has at most one row per key, so `first` takes its only value.
    rows = union.groupBy(_KEY).agg(*(F.first(f"`{one.name}`", ignorenulls=True).alias(one.name) for one in having))
    columns = [F.col(_KEY)[name].alias(name) for name in key]
    columns += [F.col(f"`{one.name}`").alias(f"value_{one.name}" if one.name in key else one.name) for one in having]
    return CheckpointRows(where, tuple(key), _of_keys(where, rows.select(*columns), list(keys)), view)


def _parts(spark: SparkSession, checkpoint: Place | str, view: str) -> list[CheckpointPart]:
    with explained(f"checkpoint {checkpoint}"):
        stores = spark.read.format("state-metadata").load(view).collect()
    if not stores:
        raise NotFound(f"checkpoint {checkpoint} holds no state: its query keeps none")
    parts: dict[tuple[int, str], CheckpointPart] = {}
    for store in stores:
        for name, kind, options in _named(store):
            operator, called, partitions, first, last = (store[one] for one in _DESCRIBED)
            parts[operator, name] = CheckpointPart(operator, called, name, kind, partitions, first, last, options)
    return sorted(parts.values(), key=lambda part: (part.operator, part.name))


def _named(store: Any) -> list[tuple[str, str, dict[str, str]]]:
    """Return the parts in a state store: name, kind, options of the data source."""
    name, properties = store["stateStoreName"], store["operatorProperties"]
    if store["operatorName"] == "symmetricHashJoin":
        # A side has two stores, which Spark's source joins.
        side = name.split("-", 1)[0]
        return [(side, "join side", {"joinSide": side})]
    variables = json.loads(properties).get("stateVariables", []) if properties else []
    if not variables:
        return [(name, "store", {"storeName": name})]
    # Names with $ are internal: timers, and the indexes of a TTL.
    own = [one for one in variables if not one["stateName"].startswith("$")]
    parts = [(one["stateName"], one["stateVariableType"], {"stateVarName": one["stateName"]}) for one in own]
    if any(one["stateVariableType"] == "TimerState" for one in variables):
        parts.append((TIMERS, "TimerState", {"readRegisteredTimers": "true"}))
    return parts


def _read(
    spark: SparkSession, where: str, view: str, part: CheckpointPart, batch: int | None, **options: str
) -> DataFrame:
    if batch is not None and not part.first_batch <= batch <= part.last_batch:
        raise NotFound(f"{where} has no state of batch {batch}; retained: {part.first_batch} to {part.last_batch}")
    # This starts the coordinator of state stores, which reading tasks need.
    _ = spark.streams
    given = {"operatorId": str(part.operator), **part.options, **options}
    given |= {} if batch is None else {"batchId": str(batch)}
    with explained(f"{where}, {part.name}"):
        return spark.read.format("statestore").options(**given).load(view)


def _flat(frame: DataFrame, operator: int) -> DataFrame:
    """Return the columns of key and value, which Spark has in structs."""
    columns: dict[str, Column] = {"operator": F.lit(operator)}

    def spread(struct: Column, kind: StructType, prefix: str) -> None:
        # With a time to live, Spark puts the value and its expiry into one struct.
        if kind.fieldNames() == ["value", _TTL] and isinstance(kind["value"].dataType, StructType):
            spread(struct["value"], kind["value"].dataType, prefix)
            columns["ttl_expires_at"] = F.timestamp_millis(struct[_TTL])
            return
        for name in kind.fieldNames():
            # A value may have a column with the name of a key column.
            columns[name if name not in columns else f"{prefix}_{name}"] = struct[name]

    for one in frame.schema.fields:
        # A de-duplication stores only keys, with a value that has no meaning.
        if one.name == "partition_id" or (isinstance(one.dataType, StructType) and one.dataType.names == ["__dummy__"]):
            continue
        if one.name == "expiration_timestamp_ms":
            columns["expires_at"] = F.timestamp_millis(one.name)
        elif isinstance(one.dataType, StructType):
            spread(F.col(f"`{one.name}`"), one.dataType, one.name)
        else:
            columns[one.name] = F.col(f"`{one.name}`")
    return frame.select(*(column.alias(name) for name, column in columns.items()))


def _bare(value: Column, kind: DataType) -> Column:
    """Return a variable's value without the structs that Spark wraps it in."""
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda one: _bare(one, kind.elementType))
    if isinstance(kind, MapType):
        entry = lambda one: F.struct(  # noqa: E731 - an argument of `transform`
            _bare(one["key"], kind.keyType).alias("key"), _bare(one["value"], kind.valueType).alias("value")
        )
        return F.transform(F.map_entries(value), entry)
    if isinstance(kind, StructType) and kind.fieldNames() == ["value", _TTL]:
        return _bare(value["value"], kind["value"].dataType)
    return value[kind.names[0]] if isinstance(kind, StructType) and len(kind) == 1 else value


def _of_keys(where: str, frame: DataFrame, keys: Sequence[Mapping[str, Any]]) -> DataFrame:
    if strangers := sorted({name for key in keys for name in key} - set(frame.columns)):
        raise NotFound(f"{where}: no column {', '.join(strangers)}; there are {', '.join(frame.columns)}")
    matches = [
        reduce(
            Column.__and__,
            (F.col(name) == F.lit(value).cast(frame.schema[name].dataType) for name, value in key.items()),
        )
        for key in keys
    ]
    return frame.where(reduce(Column.__or__, matches)) if matches else frame


def _described(parts: Iterable[CheckpointPart]) -> str:
    return "; ".join(f"{one.name} ({one.kind} of operator {one.operator}, {one.operator_name})" for one in parts)


def _as_bytes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"rows": [buffer.getvalue().to_pybytes()]})
