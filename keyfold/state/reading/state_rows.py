"""Rows of a job's state after a batch. They are read when they are used: ranges of keys, by a few threads of this process."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import polars as pl
import pyarrow as pa

from keyfold.errors import Damaged
from keyfold.keyed.calling.slots import SLOT, Slots
from keyfold.keyed.parts.folding import Layers
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.rows.codec import empty
from keyfold.state.rows.keys import WantedKeys, selected
from keyfold.storage.place import Place

REMEDY = "nothing was changed; restore it from a backup, or read another batch or generation"

_THREADS = 4
"""Frames that are read at the same time. More of them mostly wait for the processor, and take memory."""

Made = TypeVar("Made")


class RowSource(Protocol):
    """Rows that can be printed and exported.

    Attributes:
        where: describes the rows, for messages.
        key: columns of the key.
        schema: all columns.
    """

    @property
    def where(self) -> str: ...
    @property
    def key(self) -> tuple[str, ...]: ...
    @property
    def schema(self) -> pa.Schema: ...

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield the rows; a frame has all rows of its keys."""
        ...


@dataclass(frozen=True)
class StateRows:
    """The rows of a job's state after a batch. They are read when they are used.

    Attributes:
        job, generation: the job and the generation.
        batch: the batch; None for a generation without finished batches, whose state is empty.
        key: columns of the key.
        schema: all columns, as the job declares its state, with the timers `deadline` (event time) and `stale_at`
            (processing time).
        manifests: the manifests of the state partitions that are read, by label; none without committed batches.
        parts: the folder of state parts.
    """

    job: str
    generation: str
    batch: int | None
    key: tuple[str, ...]
    schema: pa.Schema
    manifests: Mapping[int, bytes]
    parts: Place
    _wanted: WantedKeys | None = None
    _slots: Slots | None = None
    _columns: Mapping[str, str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows, with all columns."""
        return self._wanted is None and self._columns is None

    @property
    def bytes(self) -> int:
        """Size of the parts that have the rows, compressed."""
        return sum(part.size for packed in self.manifests.values() for part in Manifest.unpack(packed).parts)

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

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield the rows as Polars frames of some hundred thousand rows, each with all rows of its keys.

        Raises:
            KeyfoldError: the state is damaged.

        Example:
            >>> sum(rows.height for rows in read_state(lakehouse, "rides").frames())  # doctest: +SKIP
        """
        columns = None if self._columns is None or self._wanted is not None else list(self._columns)
        return (rows for rows in self.map_slots(self._shown, columns) if rows.height)

    def polars(self) -> pl.DataFrame:
        """Return all rows as one Polars frame. Use it for a few rows, such as those of some keys.

        Raises:
            KeyfoldError: the state is damaged.
        """
        return pl.concat([empty(self.schema), *self.frames()])

    def matching(self, condition: pl.Expr) -> pl.DataFrame:
        """Return the rows that fulfil a condition.

        Raises:
            KeyfoldError: the state is damaged.
        """
        return pl.concat([empty(self.schema), *(rows.filter(condition) for rows in self.frames())])

    def map_slots(
        self, function: Callable[[pl.DataFrame], Made], columns: Sequence[str] | None = None
    ) -> Iterator[Made]:
        """Apply a function to frames of rows of whole keys, with their `SLOT`, in threads; yields its results in order.

        Raises:
            KeyfoldError: the state is damaged.
        """
        reads = (
            read
            for manifest in self.manifests.values()
            for read in partition_reads(self.where, self.parts, manifest, columns, self._slots)
        )
        return in_threads(partial(_applied, function, read) for read in reads)

    def _shown(self, frame: pl.DataFrame) -> pl.DataFrame:
        rows = frame.drop(SLOT) if self._wanted is None else self._wanted.of(frame.drop(SLOT))
        return (
            rows if self._columns is None else rows.select(pl.col(old).alias(new) for old, new in self._columns.items())
        )


def partition_reads(
    where: str, parts: Place, packed: Any, columns: Sequence[str] | None = None, slots: Slots | None = None
) -> Iterator[Callable[[], pl.DataFrame]]:
    """Yield functions that read the rows of a state partition with their `SLOT`, each all rows of its keys, in any thread.

    Args:
        where: describes the state, for messages.
        parts: the generation's folder of parts.
        packed: the partition's manifest.
        columns: columns to read; all by default.
        slots: slots to read; all by default.

    Raises:
        Damaged: the manifest or a part is damaged.
    """
    try:
        manifest = Manifest.unpack(packed)
        # An open file serves one thread at a time.
        idle = [Layers(manifest, parts)]
        ranges = idle[0].ranges() if slots is None else []
    except Damaged as error:
        raise _unreadable(where, error) from error

    def read(work: Callable[[Layers], pl.DataFrame | None]) -> pl.DataFrame:
        try:
            layers = idle.pop()
        except IndexError:
            layers = Layers(manifest, parts)
        try:
            rows = work(layers)
        except Damaged as error:
            raise _unreadable(where, error) from error
        idle.append(layers)
        assert rows is not None  # noqa: S101 - a partition without parts is not read
        return rows

    if slots is None:
        yield from (partial(read, lambda one, at=at: one.between(*at, columns)) for at in ranges)
    elif manifest.parts:
        yield partial(read, lambda one: one.of(slots, columns))


def in_threads(tasks: Iterable[Callable[[], Made]]) -> Iterator[Made]:
    """Call functions in a few threads, and yield their results in order; few are computed ahead."""
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(task))
                if len(waiting) > _THREADS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()


def _applied(function: Callable[[pl.DataFrame], Made], read: Callable[[], pl.DataFrame]) -> Made:
    return function(read())


def _unreadable(where: str, error: Damaged) -> Damaged:
    return Damaged(f"{where}: its state cannot be read: {error}; {REMEDY}")
