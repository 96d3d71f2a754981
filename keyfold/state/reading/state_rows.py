"""Rows of state as Spark frames, Polars frames, or input of functions in workers. They are read when they are used."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from keyfold.errors import Damaged
from keyfold.keyed.calling.slots import SLOT, Slots
from keyfold.keyed.parts.folding import state_frames
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.rows.codec import empty
from keyfold.runners.runner import OnBatches
from keyfold.state.reading.failures import REMEDY, explained
from keyfold.state.rows.keys import WantedKeys, selected
from keyfold.storage.place import Place

_ROWS_AT_ONCE = 50_000
_MANIFEST = pa.schema([("manifest", pa.binary())])

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
    """

    job: str
    generation: str
    batch: int | None
    key: tuple[str, ...]
    schema: pa.Schema
    _session: SparkSession
    _manifests: Mapping[int, bytes] | None
    _parts: Place
    _wanted: WantedKeys | None
    _slots: Slots | None = None
    _columns: Mapping[str, str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows, with all columns."""
        return self._wanted is None and self._columns is None

    @property
    def manifests(self) -> Mapping[int, bytes] | None:
        """The manifests of the state partitions, by label; None for a generation without committed batches."""
        return self._manifests

    @property
    def session(self) -> SparkSession:
        """The Spark session whose workers read the rows."""
        return self._session

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
        for manifest in self._manifests.values():
            for frame in partition_frames(self.where, self._parts, manifest, slots=self._slots):
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
            # As buffers, which are not copied: a manifest may have the content of parts in it.
            manifests = (one.as_buffer() for batch in batches for one in batch.column("manifest"))
            return work(frame for one in manifests for frame in partition_frames(where, parts, one, columns, slots))

        return on_workers(self._session, pa.table({"manifest": list(self._manifests.values())}, _MANIFEST), run, kind)


def on_workers(session: SparkSession, rows: pa.Table, function: OnBatches, kind: StructType) -> DataFrame:
    """Apply a function to rows in tasks, one row in each, since the work for a row may be large."""
    return session.createDataFrame(rows).repartition(max(1, rows.num_rows)).mapInArrow(function, kind)


def partition_frames(
    where: str, parts: Place, manifest: Any, columns: Sequence[str] | None = None, slots: Slots | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a state partition with their `SLOT`; each frame has all rows of its keys.

    Args:
        where: describes the state, for messages.
        parts: the generation's folder of parts.
        manifest: the partition's manifest.
        columns: columns to read; all by default.
        slots: slots to read; all by default.

    Raises:
        Damaged: the manifest or a part is damaged.
    """
    try:
        yield from state_frames(Manifest.unpack(manifest), parts, columns, slots)
    except Damaged as error:
        raise Damaged(f"{where}: its state cannot be read: {error}; {REMEDY}") from error


def _wanted_rows(rows: pl.DataFrame, wanted: WantedKeys | None, columns: Mapping[str, str] | None) -> pl.DataFrame:
    kept = rows if wanted is None else wanted.of(rows)
    return kept if columns is None else kept.select(pl.col(old).alias(new) for old, new in columns.items())
