"""Read the state of any Spark streaming query from its checkpoint, with Spark's own state data source.

A *part* of state has rows with the same columns: a variable of `transformWithState`, its `timers`, a side of a stream-stream
join (`left`, `right`), or the store of an aggregation or a de-duplication (`default`).

As any application of Spark, this trusts a checkpoint: its metadata names the local files to which Spark copies RocksDB's.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import polars as pl
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from keyfold.errors import Damaged, Misconfigured, NotFound, error_in
from keyfold.storage.place import Place, local_path, to_place

_TTL = "ttlExpirationMs"
_SCHEMA_FILE = re.compile(r'"(file:[^"]*?)/state/(\d+/_stateSchema/[^"]*)"')


class _Part(NamedTuple):
    """A part of a checkpoint's state: its operator, name and kind, the batches that are retained, and options to read it."""

    operator: int
    operator_name: str
    name: str
    kind: str
    first: int
    last: int
    options: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.name} ({self.kind} of operator {self.operator}, {self.operator_name}, batches {self.first} to {self.last})"


@dataclass(frozen=True)
class CheckpointRows:
    """Rows of a checkpoint's state; they are read when they are used.

    Attributes:
        where: describes the rows, for messages.
        key: none, since the columns of the key are columns like others.
    """

    where: str
    key: tuple[str, ...]
    _frame: DataFrame
    _view: "TemporaryDirectory[str]"

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return self._frame.limit(0).toArrow().schema

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield the rows, of one partition after the other.

        Raises:
            KeyfoldError: the state cannot be read.
        """
        with explained(self.where):
            for row in self._frame.mapInArrow(_as_bytes, "rows binary").toLocalIterator():
                yield cast(pl.DataFrame, pl.from_arrow(pa.ipc.open_stream(row[0]).read_all()))


def read_checkpoint(
    spark: SparkSession,
    checkpoint: Place | str,
    part: str | None = None,
    *,
    operator: int | None = None,
    batch: int | None = None,
) -> CheckpointRows:
    """Read a part of a checkpoint's state. An element of a list or map is a row.

    Args:
        checkpoint: its folder, or its URL in a bucket, which is copied to this machine first.
        part: name of the part; may be left out if there is only one.
        operator: the operator; may be left out if only one has the part.
        batch: the batch after which the state is read; the last by default.

    Returns:
        Columns `operator`, those of the key, and those of the value; `expires_at` for timers, `ttl_expires_at` for state with
        a TTL.

    Raises:
        KeyfoldError: there is no checkpoint, not one such part, or no such batch; names those that exist.
    """
    where, view = f"checkpoint {checkpoint}", view_of(spark, checkpoint)
    parts = _parts(spark, checkpoint, view.name)
    having = [one for one in parts if part in (None, one.name) and operator in (None, one.operator)]
    if len(having) != 1:
        of = "" if operator is None else f" of operator {operator}"
        what = f"no state {part or ''}{of}" if not having else f"several parts of state {part or ''}{of}: name one"
        raise NotFound(f"{where} has {what}; it has {'; '.join(map(str, parts))}")
    return CheckpointRows(where, (), _flat(_read(spark, where, view.name, having[0], batch), having[0].operator), view)


def view_of(spark: SparkSession, checkpoint: Place | str) -> "TemporaryDirectory[str]":
    """Return a folder, as long as the result lives, by which Spark can read a checkpoint.

    Spark's reader does not decode escaped characters in paths, such as %20, and it looks for state schemas at the absolute
    paths where they were written. So the folder has links, and corrected copies of the files that have those paths; of a
    checkpoint in a bucket, it has a copy.

    Raises:
        KeyfoldError: there is no checkpoint, its query keeps no state, or Spark runs on a cluster.
    """
    if not str(spark.conf.get("spark.master")).startswith("local"):
        raise Misconfigured("a checkpoint is read by Spark on this machine: set KEYFOLD_SPARK_MASTER=local[*]")
    place = to_place(str(checkpoint))
    if not (place / "commits").is_dir():
        raise NotFound(f"{checkpoint} is no checkpoint of a Spark query, or one that has finished no batch yet")
    local, view = local_path(place), TemporaryDirectory(prefix="keyfold-view-")
    root = Path(view.name)
    if local is None:
        for file in place.rglob("*"):
            copy = root / "copy" / str(file).removeprefix(f"{place}/")
            if not file.is_dir() and copy.resolve().is_relative_to(root.resolve()):
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(file.read_bytes())
    source = local.resolve() if local else root / "copy"
    for entry in source.iterdir():
        if entry.name != "state":
            (root / entry.name).symlink_to(entry)
    for entry in source.glob("state/*/*"):
        here = root / entry.relative_to(source)
        here.parent.mkdir(parents=True, exist_ok=True)
        if entry.name != "_metadata":
            here.symlink_to(entry)
            continue
        # Without the checksum files beside them, which do not fit the copies.
        for file in entry.rglob("[!.]*"):
            if file.is_file():
                (copy := here / file.relative_to(entry)).parent.mkdir(parents=True, exist_ok=True)
                text = file.read_text(encoding="utf-8")
                copy.write_text(_SCHEMA_FILE.sub(rf'"file:{root}/state/\2"', text), encoding="utf-8")
    return view


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Replace errors of Spark by errors with a cause and a remedy.

    Raises:
        KeyfoldError: the worker's error, or an error with Spark's innermost cause.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if raised := error_in(text):
            raise raised from error
        # The innermost cause names the file; the outer ones only say that a stage failed.
        causes = re.findall(r"^\s*Caused by: [\w.$]+: (.*)", text, re.MULTILINE)
        first = next((line for line in text.splitlines() if line.strip()), "")
        raise Damaged(
            f"{where}: its state cannot be read: {causes[-1] if causes else first}; nothing was changed; read another batch, "
            "or copy it again from its source"
        ) from error


def _parts(spark: SparkSession, checkpoint: Place | str, view: str) -> list[_Part]:
    with explained(f"checkpoint {checkpoint}"):
        stores = spark.read.format("state-metadata").load(view).collect()
    if not stores:
        raise NotFound(f"checkpoint {checkpoint} holds no state: its query keeps none")
    found = ((store, *named) for store in stores for named in _named(store))
    parts = {
        (of["operatorId"], name): _Part(
            of["operatorId"], of["operatorName"], name, kind, of["minBatchId"], of["maxBatchId"], options
        )
        for of, name, kind, options in found
    }
    return [parts[one] for one in sorted(parts)]


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
        parts.append(("timers", "TimerState", {"readRegisteredTimers": "true"}))
    return parts


def _read(spark: SparkSession, where: str, view: str, part: _Part, batch: int | None) -> DataFrame:
    if batch is not None and not part.first <= batch <= part.last:
        raise NotFound(f"{where} has no state of batch {batch}; retained: {part.first} to {part.last}")
    # This starts the coordinator of state stores, which reading tasks need.
    _ = spark.streams
    given = {"operatorId": str(part.operator), **part.options, **({} if batch is None else {"batchId": str(batch)})}
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


def _as_bytes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"rows": [buffer.getvalue().to_pybytes()]})
