"""Read a job's state as typed rows, after any retained batch.

Spark reads the manifest of each state partition. Workers read the parts that it names as tables, a range of keys at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from keyfold.errors import Damaged, NotFound
from keyfold.keyed.calling.slots import NO_SLOTS, SLOT, Slots, partitions_of
from keyfold.keyed.generation.fingerprint import fixed_settings
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.parts.folding import state_frames
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.rows.codec import empty
from keyfold.keyed.running.state_manifests import state_manifests
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.failures import REMEDY, explained
from keyfold.state.reading.retained_batches import find_batch, find_generation
from keyfold.state.rows.keys import Key, WantedKeys, wanted_keys
from keyfold.state.rows.selection import selected
from keyfold.storage.place import Place

_ROWS_AT_ONCE = 50_000

Change = Callable[[pl.DataFrame], pl.DataFrame]
"""A function that workers apply to rows of state; all rows of a key are passed together."""

OnWorker = Callable[[Iterator[pl.DataFrame]], Iterator[pa.RecordBatch]]
"""A function that a worker applies to frames of rows of whole keys."""


class RowsOnWorkers(ABC):
    """Rows of state to which workers apply functions."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Describes the state, for messages."""

    @abstractmethod
    def worked(self, work: OnWorker, schema: pa.Schema) -> DataFrame:
        """Apply a function to each worker's frames of rows; returns a Spark frame with the schema of its results."""

    def changed(self, change: Change, schema: pa.Schema) -> DataFrame:
        """Apply a function to the rows of whole keys in workers; returns a Spark frame with the schema of its results."""

        def work(rows: Iterator[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
            for frame in rows:
                made = change(frame)
                for part in made.iter_slices(_ROWS_AT_ONCE):
                    yield from part.to_arrow().select(schema.names).cast(schema).to_batches()

        return self.worked(work, schema)

    def collect_from_frames(self, work: OnWorker, schema: pa.Schema) -> list[Any]:
        """Apply a function to each worker's frames of rows, and collect its results, which must be few.

        Raises:
            KeyfoldError: the state is damaged, or the work failed.
        """
        with explained(self.where):
            return self.worked(work, schema).collect()


@dataclass(frozen=True)
class StateRows(RowsOnWorkers):
    """The rows of a job's state after a batch. They are read when they are used.

    Attributes:
        job, generation: the job and the generation.
        batch: the batch; None for a generation without finished batches, whose state is empty.
        key: columns of the key.
        schema: all columns, as the job declares its state, with the timers `deadline` (event time) and `stale_at`
            (processing time).
        partitions: number of state partitions.
    """

    job: str
    generation: str
    batch: int | None
    key: tuple[str, ...]
    schema: pa.Schema
    _session: SparkSession
    _manifests: DataFrame | None
    _parts: Place
    _wanted: WantedKeys | None
    _slots: Slots | None = None
    _columns: Mapping[str, str] | None = None
    partitions: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows, with all columns."""
        return self._wanted is None and self._columns is None

    @property
    def manifests(self) -> DataFrame | None:
        """The manifests, by `partition`; None for a generation without finished batches."""
        return self._manifests

    @property
    def parts(self) -> Place:
        """The folder of state parts."""
        return self._parts

    @property
    def where(self) -> str:
        """Describes the rows, for messages."""
        return f"job {self.job}, {self.generation}, batch {self.batch}"

    def select(self, columns: Mapping[str, str]) -> "StateRows":
        """Return the rows with some columns only.

        Args:
            columns: the columns, with their new names.

        Raises:
            KeyfoldError: there is no such column, or two have the same name.
        """
        wanted = selected(self.where, columns, self.schema.names)
        schema = pa.schema([self.schema.field(old).with_name(new) for old, new in wanted.items()])
        key = tuple(wanted[name] for name in self.key if name in wanted)
        return replace(self, key=key, schema=schema, _columns=wanted)

    def spark(self) -> DataFrame:
        """Return the rows as a Spark frame; workers read them when it is used.

        Example:
            >>> read_state(spark, lakehouse, "purchase_totals").spark().where("quantity > 1000").show()  # doctest: +SKIP
        """
        return self.changed(lambda rows: rows, self.schema)

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield the rows as Polars frames of some hundred thousand rows, each with all rows of its keys.

        Raises:
            KeyfoldError: the state is damaged.

        Example:
            >>> sum(rows.height for rows in read_state(spark, lakehouse, "rides").frames())  # doctest: +SKIP
        """
        if self._manifests is None:
            return
        with explained(self.where):
            # Manifests are small, one row for each state partition. The parts are read in this process.
            for row in self._manifests.toLocalIterator():
                for frame in partition_frames(self.where, self._parts, row["manifest"], slots=self._slots):
                    rows = _wanted_rows(frame.drop(SLOT), self._wanted, self._columns)
                    if rows.height:
                        yield rows

    def polars(self) -> pl.DataFrame:
        """Return all rows as one Polars frame. Use it for a few rows, such as those of some keys.

        Raises:
            KeyfoldError: the state is damaged.
        """
        return pl.concat([empty(self.schema), *self.frames()])

    def worked(self, work: OnWorker, schema: pa.Schema) -> DataFrame:
        """Apply a function to each worker's frames of rows; returns a Spark frame with the schema of its results."""
        wanted, columns = self._wanted, self._columns

        def kept(frames: Iterator[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
            return work(_wanted_rows(frame.drop(SLOT), wanted, columns) for frame in frames)

        return self._over_frames(kept, schema)

    def collect_from_slots(
        self,
        work: OnWorker,
        schema: pa.Schema,
        columns: Sequence[str],
    ) -> list[Any]:
        """As `collect_from_frames`, for some columns of all rows, with their `SLOT`; a selection of keys is ignored.

        Raises:
            KeyfoldError: the state is damaged, or the work failed.
        """
        with explained(self.where):
            return self._over_frames(work, schema, columns).collect()

    def _over_frames(
        self,
        work: OnWorker,
        schema: pa.Schema,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        kind = from_arrow_schema(schema)
        if self._manifests is None:
            return self._session.createDataFrame([], kind)
        where, parts, slots = self.where, self._parts, self._slots

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            manifests = (one.as_buffer() for batch in batches for one in batch.column("manifest"))
            return work(frame for one in manifests for frame in partition_frames(where, parts, one, columns, slots))

        return self._manifests.mapInArrow(run, kind)


def read_state(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob | str,
    *,
    generation: str | None = None,
    batch: int | None = None,
    keys: Iterable[Key] = (),
) -> StateRows:
    """Read the rows of a job's state. Reading writes nothing, and can be done while the job runs.

    Args:
        spark: the Spark session.
        lakehouse: the lakehouse.
        job: the job, or its name; with a name, the columns are taken from the state.
        generation: name of a generation or a branch; the live generation by default.
        batch: a retained batch; the last one by default.
        keys: the keys to read (`keys.Key`); all by default. Only state partitions that can have them are read.

    Raises:
        KeyfoldError: there is no such job, generation or batch, files are damaged, or a key does not fit the job.

    Example:
        >>> ride = read_state(spark, lakehouse, "ride_summaries", keys=["ride-17"]).polars()  # doctest: +SKIP
    """
    name = job if isinstance(job, str) else job.name
    chosen = find_generation(lakehouse, name, generation)
    last = find_batch(chosen, batch)
    born, key = chosen.record["fixed"], tuple(chosen.record["fixed"]["key"])
    session = spark.newSession()
    manifests = None if last is None else state_manifests(session, chosen, last)
    where = f"job {name}, {chosen.name}, batch {last}"
    schema = _schema(where, chosen, job if isinstance(job, KeyedJob) else None, manifests)
    wanted = wanted_keys(keys, key, schema)
    slots = wanted.slots(born, schema) if wanted else None
    if manifests is not None and slots is not None:
        manifests = of_partitions(manifests, partitions_of(slots, chosen.partitions))
    return StateRows(
        name,
        chosen.name,
        last,
        key,
        schema,
        session,
        manifests,
        chosen.parts,
        wanted,
        slots,
        partitions=chosen.partitions,
    )


def of_partitions(manifests: DataFrame, labels: list[int]) -> DataFrame:
    """Return the manifests of some partitions."""
    return manifests.where(F.col("partition").isin(labels))


def partition_frames(
    where: str, parts: Place, manifest: Any, columns: Sequence[str] | None = None, slots: Slots | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a state partition with their `SLOT`; each frame has all rows of its keys.

    Args:
        where: describes the state, for messages.
        parts: the generation's folder of parts.
        manifest: the partition's manifest, from Spark.
        columns: columns to read; all by default.
        slots: slots to read; all by default.

    Raises:
        Damaged: the manifest or a part is damaged.
    """
    try:
        yield from state_frames(Manifest.unpack(manifest), parts, columns, slots)
    except Damaged as error:
        raise Damaged(f"{where}: its state cannot be read: {error}; {REMEDY}") from error


def _schema(where: str, generation: Generation, job: KeyedJob | None, manifests: DataFrame | None) -> pa.Schema:
    """Return the columns of the state: the job's, or those in the state if the generation began with others."""
    born = generation.record["fixed"]["columns of state"]
    if job is not None and fixed_settings(job)["columns of state"] == born:
        return _nullable(job.state)
    if manifests is not None:
        with explained(where):
            first = manifests.first()
        if first is not None:
            # No slots, so no rows: only the columns are needed.
            rows = next(partition_frames(where, generation.parts, first["manifest"], slots=NO_SLOTS))
            return _plain(rows.drop(SLOT).to_arrow().schema)
    if job is not None:
        return _nullable(job.state)
    raise NotFound(f"{where}: its state is empty, and no job of that name declares its columns")


def _wanted_rows(rows: pl.DataFrame, wanted: WantedKeys | None, columns: Mapping[str, str] | None) -> pl.DataFrame:
    kept = rows if wanted is None else wanted.of(rows)
    return kept if columns is None else kept.select(pl.col(old).alias(new) for old, new in columns.items())


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types that jobs declare. Polars uses the large variants only."""
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
