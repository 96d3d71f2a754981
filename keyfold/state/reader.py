"""A job's state as typed rows, at any batch that is retained.

Spark finds and loads the state; workers decode it, a key group at a time, as tables.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from keyfold.errors import Damaged, NotFound
from keyfold.keyed.checkpoint import check_is_readable
from keyfold.keyed.codec import decode, empty
from keyfold.keyed.contract import KeyedJob
from keyfold.keyed.fingerprint import fixed
from keyfold.keyed.generations import Generation
from keyfold.keyed.processor import STATE_VARIABLE
from keyfold.keyed.state_source import read_source
from keyfold.lakehouse import Lakehouse
from keyfold.state.failures import explained
from keyfold.state.keys import Key, WantedKeys, wanted_keys
from keyfold.state.places import find_batch, find_generation
from keyfold.state.selection import selected

_ROWS_AT_ONCE = 50_000
_BYTES_AT_ONCE = 32 << 20

Blob = tuple[int, Any]
"""A key group and its state as bytes."""

Change = Callable[[pl.DataFrame], pl.DataFrame]
"""What is made of a key group's rows of state, on a worker; all rows of a key are among them."""


@dataclass(frozen=True)
class StateRows:
    """The rows of a job's state at a batch; nothing is read until they are asked for.

    Attributes:
        job, generation: whose they are.
        batch: after which; None of a generation that has finished none, whose state is empty.
        key: columns of the key.
        schema: the columns, as the job declares its state: the key's, its own, and of timers `deadline` (event time)
            and `stale_at` (processing time).
    """

    job: str
    generation: str
    batch: int | None
    key: tuple[str, ...]
    schema: pa.Schema
    _session: SparkSession
    _blobs: DataFrame | None
    _wanted: WantedKeys | None
    _columns: Mapping[str, str] | None = None

    @property
    def where(self) -> str:
        """What they are of, for people."""
        return f"job {self.job}, {self.generation}, batch {self.batch}"

    def select(self, columns: Mapping[str, str]) -> "StateRows":
        """The rows with some columns, by their new names.

        Raises:
            KeyfoldError: there is no such column, or a name comes twice.
        """
        wanted = selected(self.where, columns, self.schema.names)
        schema = pa.schema([self.schema.field(old).with_name(new) for old, new in wanted.items()])
        key = tuple(wanted[name] for name in self.key if name in wanted)
        return replace(self, key=key, schema=schema, _columns=wanted)

    def spark(self) -> DataFrame:
        """The rows as a Spark frame; workers decode them when it is used.

        Example:
            >>> read_state(spark, lakehouse, "purchase_totals").spark().where("quantity > 1000").show()  # doctest: +SKIP
        """
        return self.changed(lambda rows: rows, self.schema)

    def frames(self) -> Iterator[pl.DataFrame]:
        """The rows as Polars frames, a key group each: no more than a partition of state is held, compressed.

        Raises:
            KeyfoldError: the state is damaged.

        Example:
            >>> sum(rows.height for rows in read_state(spark, lakehouse, "rides").frames())  # doctest: +SKIP
        """
        if self._blobs is None:
            return
        with explained(self.where):
            # Partition by partition: all at once would be the whole state on the driver.
            for row in self._blobs.toLocalIterator():
                rows = _kept(decode_group(self.where, row["key_group"], row["payload"]), self._wanted, self._columns)
                if rows.height:
                    yield rows

    def polars(self) -> pl.DataFrame:
        """All the rows as one Polars frame: for few, or with keys.

        Raises:
            KeyfoldError: the state is damaged.
        """
        return pl.concat([empty(self.schema), *self.frames()])

    def changed(self, change: Change, schema: pa.Schema) -> DataFrame:
        """What a function makes of each key group's rows, as a Spark frame of a schema."""

        def work(rows: Iterator[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
            for frame in rows:
                made = change(frame)
                for part in made.iter_slices(_ROWS_AT_ONCE):
                    yield from part.to_arrow().select(schema.names).cast(schema).to_batches()

        return self.worked(work, schema)

    def worked(
        self, work: Callable[[Iterator[pl.DataFrame]], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> DataFrame:
        """What a function makes, on each worker, of the frames of its key groups, as a Spark frame of a schema."""
        where, wanted, columns = self.where, self._wanted, self._columns

        def decoded(blobs: Iterator[Blob]) -> Iterator[pa.RecordBatch]:
            return work(_kept(decode_group(where, *blob), wanted, columns) for blob in blobs)

        return self._over_blobs(decoded, schema)

    def collect_from_frames(
        self, work: Callable[[Iterator[pl.DataFrame]], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> list[Any]:
        """The few rows that workers tell of what they made of the frames of their key groups.

        Raises:
            KeyfoldError: the state is damaged, or the work failed.
        """
        with explained(self.where):
            return self.worked(work, schema).collect()

    def collect_from_blobs(
        self, work: Callable[[Iterator[Blob]], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> list[Any]:
        """The few rows that workers tell of key groups as they lie in the state, whatever keys are wanted.

        Raises:
            KeyfoldError: the state is damaged, or the work failed.
        """
        with explained(self.where):
            return self._over_blobs(work, schema).collect()

    def _over_blobs(self, work: Callable[[Iterator[Blob]], Iterator[pa.RecordBatch]], schema: pa.Schema) -> DataFrame:
        kind = from_arrow_schema(schema)
        if self._blobs is None:
            return self._session.createDataFrame([], kind)

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return work(
                (group, payload.as_buffer())
                for batch in batches
                for group, payload in zip(batch.column("key_group").to_pylist(), batch.column("payload"), strict=True)
            )

        return self._blobs.mapInArrow(run, kind)


def read_state(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob | str,
    *,
    generation: str | None = None,
    batch: int | None = None,
    keys: Iterable[Key] = (),
) -> StateRows:
    """The rows of a job's state; reading writes nothing, and may go on beside a run of the job.

    Args:
        spark: the session.
        lakehouse: where the job is.
        job: the job, or its name: then the columns are told by the state itself.
        generation: its name, or a branch's; the live one by default.
        batch: one that is retained; the last by default.
        keys: those wanted, as `keys.Key` says; all by default. Key groups that cannot hold them are not decoded.

    Raises:
        KeyfoldError: there is no such job, generation or batch, its files are damaged, or a key is none of the job's.

    Example:
        >>> ride = read_state(spark, lakehouse, "ride_summaries", keys=["ride-17"]).polars()  # doctest: +SKIP
    """
    name = job if isinstance(job, str) else job.name
    found = find_generation(lakehouse, name, generation)
    last = find_batch(found, batch)
    born, key = found.record["fixed"], tuple(found.record["fixed"]["key"])
    session = spark.newSession()
    # Rows are blobs here, few and large: what one worker gets at a time is bounded by their sizes.
    session.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(_BYTES_AT_ONCE))
    blobs = None if last is None else state_blobs(session, found, last)
    where = f"job {name}, {found.name}, batch {last}"
    schema = _schema(where, found, job if isinstance(job, KeyedJob) else None, blobs)
    wanted = wanted_keys(keys, key, schema)
    groups = wanted.groups(born, schema) if wanted else None
    if blobs is not None and groups is not None:
        blobs = _of_groups(blobs, groups)
    return StateRows(name, found.name, last, key, schema, session, blobs, wanted)


def state_blobs(session: SparkSession, generation: Generation, batch: int) -> DataFrame:
    """The blobs of a generation's state after a batch: `key_group`, `payload`."""
    check_is_readable(generation.checkpoint)
    state = read_source(session, generation.checkpoint, "statestore", batchId=batch, stateVarName=STATE_VARIABLE)
    return state.select(F.col("key.key_group").alias("key_group"), F.col("value.payload").alias("payload"))


def _of_groups(blobs: DataFrame, groups: list[int]) -> DataFrame:
    """Blobs of some key groups: Spark leaves the others where they are, before a worker gets any."""
    return blobs.where(F.col("key_group").isin(groups))


def _schema(where: str, generation: Generation, job: KeyedJob | None, blobs: DataFrame | None) -> pa.Schema:
    """The columns of the state: the job's, unless the generation was born with others; then as the state has them."""
    born = generation.record["fixed"]["columns of state"]
    if job is not None and fixed(job)["columns of state"] == born:
        return _nullable(job.state)
    if blobs is not None:
        with explained(where):
            first = blobs.first()
        if first is not None:
            rows = decode_group(where, first["key_group"], first["payload"])
            return _plain(rows.head(0).to_arrow().schema)
    if job is not None:
        return _nullable(job.state)
    raise NotFound(f"{where}: it keeps nothing, and there is no job of that name to say what columns it would have")


def decode_group(where: str, group: int, payload: Any, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """The rows of a key group's blob, some of its columns alone if they are named.

    Raises:
        KeyfoldError: it is damaged.
    """
    try:
        return decode(payload, columns)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise Damaged(f"{where}: the state of key group {group} is damaged and cannot be decoded: {error}") from error


def _kept(rows: pl.DataFrame, wanted: WantedKeys | None, columns: Mapping[str, str] | None) -> pl.DataFrame:
    kept = rows if wanted is None else wanted.of(rows)
    return kept if columns is None else kept.select(pl.col(old).alias(new) for old, new in columns.items())


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema in the types that jobs declare: Polars has the large ones alone."""
    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in kind])
    return kind
