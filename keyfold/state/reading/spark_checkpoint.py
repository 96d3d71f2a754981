"""Read the state of any Spark streaming query from its checkpoint, part by part.

A *part* of state has rows with the same columns: a variable of `transformWithState`, its `timers`, a side of a stream-stream
join (`left`, `right`), or the store of an aggregation or a de-duplication (`default`).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from keyfold.errors import KeyfoldError, NotFound
from keyfold.state.reading.failures import explained
from keyfold.state.reading.foreign_checkpoint import check_checkpoint_is_harmless
from keyfold.state.reading.state_source import read_source

TIMERS = "timers"
_JOIN = "symmetricHashJoin"
TTL = "ttlExpirationMs"
_NO_VALUE = ["__dummy__"]
"""The value column of a de-duplication, which stores only keys."""
_COLLECTIONS = {"list_value": "values", "map_value": "entries"}


@dataclass(frozen=True)
class StatePart:
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


def parts_of(spark: SparkSession, checkpoint: Path | str) -> list[StatePart]:
    """Return the parts of a checkpoint's state.

    Raises:
        KeyfoldError: there is no checkpoint, it cannot be read, or its query has no state.
    """
    if "://" not in str(checkpoint) and not (Path(checkpoint) / "commits").is_dir():
        raise NotFound(f"{checkpoint} is no checkpoint of a Spark query, or one that has finished no batch yet")
    if "://" not in str(checkpoint):
        check_checkpoint_is_harmless(Path(checkpoint))
    try:
        with explained(f"checkpoint {checkpoint}"):
            stores = read_source(spark, checkpoint, "state-metadata").collect()
    except KeyfoldError as error:
        # Spark fails if there is no folder of state, as of a query without state.
        if "://" in str(checkpoint) or (Path(checkpoint) / "state").is_dir():
            raise
        stores = []
        cause: KeyfoldError | None = error
    else:
        cause = None
    if not stores:
        raise NotFound(f"checkpoint {checkpoint} holds no state: its query keeps none") from cause
    parts: dict[tuple[int, str], StatePart] = {}
    for store in stores:
        for name, kind, options in _named(store):
            parts[store["operatorId"], name] = StatePart(
                store["operatorId"],
                store["operatorName"],
                name,
                kind,
                store["numPartitions"],
                store["minBatchId"],
                store["maxBatchId"],
                options,
            )
    return sorted(parts.values(), key=lambda part: (part.operator, part.name))


def read_checkpoint(
    spark: SparkSession,
    checkpoint: Path | str,
    part: str | None = None,
    *,
    operator: int | None = None,
    batch: int | None = None,
    changes_since: int | None = None,
    whole_collections: bool = False,
    keys: Iterable[Mapping[str, Any]] = (),
) -> DataFrame:
    """Read a part of a checkpoint's state as a Spark frame, for all operators that have it.

    Args:
        checkpoint: its folder, or a URL of another file system.
        part: name of the part; may be left out if there is only one.
        operator: read this operator only; if it does not have the part and another one does, the frame is empty.
        batch: the batch after which the state is read; the last by default.
        changes_since: read changes from this batch on, with `change_type` and `batch_id`, in place of the state. Spark has
            them for stores with changelogs.
        whole_collections: return lists and maps as a row for each key (`values`, `entries`), and not for each element.
        keys: values of columns; returns the rows that match any of them.

    Returns:
        Columns `operator`, those of the key, and those of the value; `expires_at` for timers, `ttl_expires_at` for state with
        a TTL.

    Raises:
        KeyfoldError: there is no checkpoint, no such part in any operator, or no such batch; names those that exist.

    Example:
        >>> read_checkpoint(spark, "/checkpoints/sales", "total").where("user = 'ann'").show()  # doctest: +SKIP
    """
    parts = parts_of(spark, checkpoint)
    names = sorted({one.name for one in parts})
    if part is None and len(names) > 1:
        raise NotFound(f"checkpoint {checkpoint} has several parts of state, name one: {describe_parts(parts)}")
    name = names[0] if part is None else part
    having = [one for one in parts if one.name == name]
    if not having:
        raise NotFound(f"checkpoint {checkpoint} has no state {name!r}; it has {describe_parts(parts)}")
    if operator is not None and operator not in {one.operator for one in parts}:
        raise NotFound(f"checkpoint {checkpoint} has no operator {operator} with state; it has {describe_parts(parts)}")
    check_batch(checkpoint, having[0], batch if changes_since is None else changes_since)
    options = {
        "batchId": None if changes_since is not None else batch,
        "readChangeFeed": None if changes_since is None else "true",
        "changeStartBatchId": changes_since,
        "changeEndBatchId": None if changes_since is None else batch,
    }
    frames = []
    for one in having:
        collections = (
            {"flattenCollectionTypes": "false"} if whole_collections and one.kind in ("ListState", "MapState") else {}
        )
        with explained(f"checkpoint {checkpoint}, {name}"):
            frame = read_source(
                spark, checkpoint, "statestore", operatorId=one.operator, **options, **one.options, **collections
            )
        rows = _flat(frame, one.operator)
        # All operators are read, so that the columns are the same, whichever is asked for.
        frames.append(rows if operator in (None, one.operator) else rows.where(F.lit(False)))
    # Parts of the same name may have other columns in another operator.
    both = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    return rows_of_keys(both, [dict(key) for key in keys], checkpoint)


def describe_parts(parts: Iterable[StatePart]) -> str:
    """Describe parts in a line."""
    return "; ".join(f"{one.name} ({one.kind} of operator {one.operator}, {one.operator_name})" for one in parts)


def _named(store: Any) -> list[tuple[str, str, dict[str, str]]]:
    """Return the parts in a state store: name, kind, options of the data source."""
    name, properties = store["stateStoreName"], store["operatorProperties"]
    if store["operatorName"] == _JOIN:
        # A side has two stores, which Spark's source joins.
        side = name.split("-", 1)[0]
        return [(side, "join side", {"joinSide": side})]
    variables = json.loads(properties).get("stateVariables", []) if properties else []
    if not variables:
        return [(name, "store", {"storeName": name})]
    parts = [
        (one["stateName"], one["stateVariableType"], {"stateVarName": one["stateName"]})
        for one in variables
        # Names with $ are internal: timers, and the indexes of a TTL.
        if not one["stateName"].startswith("$")
    ]
    if any(one["stateVariableType"] == "TimerState" for one in variables):
        parts.append((TIMERS, "TimerState", {"readRegisteredTimers": "true"}))
    return parts


def check_batch(checkpoint: Path | str, part: StatePart, batch: int | None) -> None:
    """Check that a batch's state is retained.

    Raises:
        KeyfoldError: it is not; names the batches that are.
    """
    if batch is not None and not part.first_batch <= batch <= part.last_batch:
        raise NotFound(
            f"checkpoint {checkpoint} has no state of batch {batch}; retained: {part.first_batch} to {part.last_batch}"
        )


def _flat(frame: DataFrame, operator: int) -> DataFrame:
    """Return the columns of key and value, which Spark has in structs."""
    columns: dict[str, Column] = {"operator": F.lit(operator)}
    for one in frame.schema.fields:
        if one.name == "partition_id" or (isinstance(one.dataType, StructType) and one.dataType.names == _NO_VALUE):
            continue
        if one.name == "expiration_timestamp_ms":
            columns["expires_at"] = F.timestamp_millis(one.name)
        elif isinstance(one.dataType, StructType):
            _spread(columns, F.col(f"`{one.name}`"), one.dataType, one.name)
        else:
            columns[_COLLECTIONS.get(one.name, one.name)] = F.col(f"`{one.name}`")
    return frame.select(*(column.alias(name) for name, column in columns.items()))


def _spread(columns: dict[str, Column], struct: Column, kind: StructType, prefix: str) -> None:
    names = kind.fieldNames()
    # With a time to live, Spark puts the value and its expiry into one struct.
    if names == ["value", TTL] and isinstance(kind["value"].dataType, StructType):
        _spread(columns, struct["value"], kind["value"].dataType, prefix)
        columns["ttl_expires_at"] = F.timestamp_millis(struct[TTL])
        return
    for name in names:
        # A value may have a column with the name of a key column.
        columns[name if name not in columns else f"{prefix}_{name}"] = struct[name]


def rows_of_keys(frame: DataFrame, keys: list[dict[str, Any]], checkpoint: Path | str) -> DataFrame:
    """Return the rows that match any of the keys; all rows without keys.

    Raises:
        KeyfoldError: a key has a column that the rows do not have.
    """
    if strangers := sorted({name for key in keys for name in key} - set(frame.columns)):
        raise NotFound(
            f"checkpoint {checkpoint}: no column {', '.join(strangers)}; there are {', '.join(frame.columns)}"
        )
    kinds = {one.name: one.dataType for one in frame.schema.fields}
    matches = [
        reduce(
            lambda left, right: left & right,
            [F.col(name) == F.lit(value).cast(kinds[name]) for name, value in key.items()],
        )
        for key in keys
    ]
    return frame.where(reduce(lambda left, right: left | right, matches)) if matches else frame
