"""The state of any Spark streaming query, read from its checkpoint: whatever keeps it, found by name.

A *part* of state is what has rows of one form: a variable of `transformWithState`, its `timers`, a side of a
stream-stream join (`left`, `right`), or the one store of an aggregation or a de-duplication (`default`).
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
from keyfold.keyed.generation.state_source import read_source
from keyfold.state.reading.failures import explained
from keyfold.state.reading.foreign_checkpoint import check_checkpoint_is_harmless

TIMERS = "timers"
_JOIN = "symmetricHashJoin"
TTL = "ttlExpirationMs"
_NO_VALUE = ["__dummy__"]
"""What a de-duplication keeps beside its keys."""
_KEPT_WHOLE = {"list_value": "values", "map_value": "entries"}


@dataclass(frozen=True)
class StatePart:
    """A part of a checkpoint's state.

    Attributes:
        operator, operator_name: what keeps it.
        name: by which it is read.
        kind: `ValueState`, `ListState`, `MapState`, `TimerState`, `join side` or `store`.
        partitions: into which it is split.
        first_batch, last_batch: that the query has finished, of those not forgotten.
        options: of Spark's source.
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
    """The parts of a checkpoint's state.

    Raises:
        KeyfoldError: there is no checkpoint, it cannot be read, or its query keeps no state.
    """
    if "://" not in str(checkpoint) and not (Path(checkpoint) / "commits").is_dir():
        raise NotFound(f"{checkpoint} is no checkpoint of a Spark query, or one that has finished no batch yet")
    if "://" not in str(checkpoint):
        check_checkpoint_is_harmless(Path(checkpoint))
    try:
        with explained(f"checkpoint {checkpoint}"):
            stores = read_source(spark, checkpoint, "state-metadata").collect()
    except KeyfoldError as error:
        if "://" in str(checkpoint) or (Path(checkpoint) / "state").is_dir():
            raise
        stores = []
        cause: KeyfoldError | None = error
    else:
        cause = None
    if not stores:
        raise NotFound(f"checkpoint {checkpoint} holds no state: its query keeps none") from cause
    found: dict[tuple[int, str], StatePart] = {}
    for store in stores:
        for name, kind, options in _named(store):
            found[store["operatorId"], name] = StatePart(
                store["operatorId"],
                store["operatorName"],
                name,
                kind,
                store["numPartitions"],
                store["minBatchId"],
                store["maxBatchId"],
                options,
            )
    return sorted(found.values(), key=lambda part: (part.operator, part.name))


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
    """A part of a checkpoint's state as a Spark frame, of all operators that have it.

    Args:
        spark: the session.
        checkpoint: its folder, or a URL of another file system.
        part: its name; needless where there is but one.
        operator: of this one alone; if it has no such part, while another has, the frame is empty.
        batch: after which; the last by default.
        changes_since: not the state but its changes, from this batch on (with `change_type` and `batch_id`); Spark
            has them of stores with changelogs.
        whole_collections: lists and maps as a row a key (`values`, `entries`), rather than a row an element.
        keys: values of columns; rows that have those of any are kept.

    Returns:
        `operator`, the key's columns, and the value's; `expires_at` of timers, `ttl_expires_at` of state with a TTL.

    Raises:
        KeyfoldError: there is no checkpoint, no such part in any operator, or no such batch; says which there are.

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
        whole = (
            {"flattenCollectionTypes": "false"} if whole_collections and one.kind in ("ListState", "MapState") else {}
        )
        with explained(f"checkpoint {checkpoint}, {name}"):
            frame = read_source(
                spark, checkpoint, "statestore", operatorId=one.operator, **options, **one.options, **whole
            )
        rows = _flat(frame, one.operator)
        # An operator that has no such state has no row of it.
        frames.append(rows if operator in (None, one.operator) else rows.where(F.lit(False)))
    both = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    return rows_of_keys(both, [dict(key) for key in keys], checkpoint)


def describe_parts(parts: Iterable[StatePart]) -> str:
    """Parts in a line for people."""
    return "; ".join(f"{one.name} ({one.kind} of operator {one.operator}, {one.operator_name})" for one in parts)


def _named(store: Any) -> list[tuple[str, str, dict[str, str]]]:
    """The parts that lie in a store: name, kind, options of the source."""
    name, properties = store["stateStoreName"], store["operatorProperties"]
    if store["operatorName"] == _JOIN:
        # A side is kept in two stores, which Spark puts together.
        side = name.split("-", 1)[0]
        return [(side, "join side", {"joinSide": side})]
    variables = json.loads(properties).get("stateVariables", []) if properties else []
    if not variables:
        return [(name, "store", {"storeName": name})]
    parts = [
        (one["stateName"], one["stateVariableType"], {"stateVarName": one["stateName"]})
        for one in variables
        # Names with $ are Spark's own: timers, and the indexes of a TTL.
        if not one["stateName"].startswith("$")
    ]
    if any(one["stateVariableType"] == "TimerState" for one in variables):
        parts.append((TIMERS, "TimerState", {"readRegisteredTimers": "true"}))
    return parts


def check_batch(checkpoint: Path | str, part: StatePart, batch: int | None) -> None:
    """Check that a batch's state is retained.

    Raises:
        KeyfoldError: it is not; says which are.
    """
    if batch is not None and not part.first_batch <= batch <= part.last_batch:
        raise NotFound(
            f"checkpoint {checkpoint} has no state of batch {batch}; retained: {part.first_batch} to {part.last_batch}"
        )


def _flat(frame: DataFrame, operator: int) -> DataFrame:
    """The columns of key and value, out of the structs that Spark has them in."""
    columns: dict[str, Column] = {"operator": F.lit(operator)}
    for one in frame.schema.fields:
        if one.name == "partition_id" or (isinstance(one.dataType, StructType) and one.dataType.names == _NO_VALUE):
            continue
        if one.name == "expiration_timestamp_ms":
            columns["expires_at"] = F.timestamp_millis(one.name)
        elif isinstance(one.dataType, StructType):
            _spread(columns, F.col(f"`{one.name}`"), one.dataType, one.name)
        else:
            columns[_KEPT_WHOLE.get(one.name, one.name)] = F.col(f"`{one.name}`")
    return frame.select(*(column.alias(name) for name, column in columns.items()))


def _spread(columns: dict[str, Column], struct: Column, kind: StructType, prefix: str) -> None:
    names = kind.fieldNames()
    if names == ["value", TTL] and isinstance(kind["value"].dataType, StructType):
        _spread(columns, struct["value"], kind["value"].dataType, prefix)
        columns["ttl_expires_at"] = F.timestamp_millis(struct[TTL])
        return
    for name in names:
        # A value may have a column of the key's name.
        columns[name if name not in columns else f"{prefix}_{name}"] = struct[name]


def rows_of_keys(frame: DataFrame, keys: list[dict[str, Any]], checkpoint: Path | str) -> DataFrame:
    """The rows that have the values of any of some keys; all rows where there are none.

    Raises:
        KeyfoldError: a key has a column that the rows lack.
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
