"""Rows of a job's state after a batch. They are read when they are used: ranges of keys, by a few threads of this process."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.calling.slots import SLOT, Slots
from keyfold.keyed.rows.codec import empty, polars_schema
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.part_reading import THREADS, partition_reads, unreadable
from keyfold.runners.in_threads import in_threads
from keyfold.schemas import field_of
from keyfold.state.rows.keys import WantedKeys
from keyfold.storage.place import Place

Result = TypeVar("Result")


class RowSource(Protocol):
    """Rows that can be printed and exported.

    Attributes:
        subject: describes the rows, for messages.
        key: columns of the key.
        schema: all columns.
    """

    @property
    def subject(self) -> str: ...
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
        schema: all columns, as the job declares its state, with the timers `deadline` (event time) and `processing_deadline`
            (processing time).
        manifests: the manifests of the state partitions that are read, by label; none without committed batches.
        parts: the folder of state parts.
        columns: by name in `schema`, the column of the state that it is; all columns by their own names by default.
    """

    job: str
    generation: str
    batch: int | None
    key: tuple[str, ...]
    schema: pa.Schema
    manifests: Mapping[int, bytes]
    parts: Place
    columns: Mapping[str, str] | None = None
    _wanted: WantedKeys | None = None
    _slots: Slots | None = None

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows."""
        return self._wanted is None

    @property
    def bytes(self) -> int:
        """Size of the parts that have the rows, compressed."""
        return sum(part.size for packed in self.manifests.values() for part in Manifest.unpack(packed).parts)

    @property
    def kinds(self) -> Mapping[str, pl.DataType]:
        """The columns with their types in Polars."""
        return polars_schema(self.schema)

    @property
    def subject(self) -> str:
        """Describes the rows, for messages."""
        return f"job {self.job}, {self.generation}, batch {self.batch}"

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield the rows as Polars frames of some hundred thousand rows, each with all rows of its keys.

        Raises:
            KeyfoldError: the state is damaged.

        Example:
            >>> sum(rows.height for rows in read_state(lakehouse, "rides").frames())  # doctest: +SKIP
        """
        columns = None if self.columns is None else list(dict.fromkeys(self.columns.values()))
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
        self, function: Callable[[pl.DataFrame], Result], columns: Sequence[str] | None = None
    ) -> Iterator[Result]:
        """Apply a function to frames of rows of whole keys, with their `SLOT`, in threads; yields its results in order.

        Raises:
            KeyfoldError: the state is damaged.
        """
        with unreadable(self.subject):
            tasks = (
                partial(_applied, function, read)
                for packed in self.manifests.values()
                for read in partition_reads(Manifest.unpack(packed), self.parts, columns, self._slots)
            )
            yield from in_threads(tasks, THREADS)

    def _shown(self, frame: pl.DataFrame) -> pl.DataFrame:
        rows = frame.drop(SLOT) if self._wanted is None else self._wanted.of(frame.drop(SLOT))
        if self.columns is None:
            return rows
        return rows.select(pl.col(column).alias(name) for name, column in self.columns.items())


def _applied(function: Callable[[pl.DataFrame], Result], read: Callable[[], pl.DataFrame]) -> Result:
    return function(read())


def chosen_columns(rows: StateRows, text: str) -> StateRows:
    """Return rows with the key, and some other columns.

    Args:
        rows: rows of a state.
        text: the other columns in their order, separated by commas, each as `COLUMN` or `NAME=COLUMN`.

    Raises:
        Misconfigured: there is no such column, or two would have one name.
    """
    pairs = [pair.strip().rpartition("=") for pair in text.split(",")]
    chosen = [(name.strip() or column.strip(), column.strip()) for name, _, column in pairs]
    for _, column in chosen:
        if not column:
            raise Misconfigured(f"--columns {text!r} lacks a name: write it as COLUMN,NAME=COLUMN")
        field_of(f"--columns {text}: {rows.subject}", column, rows.schema)
    of_key = [(name, name) for name in rows.key]
    named = [*of_key, *(pair for pair in chosen if pair not in of_key)]
    names = [name for name, _ in named]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Misconfigured(f"--columns {text}: {', '.join(twice)} is there twice; the key is always in a row")
    schema = pa.schema([rows.schema.field(column).with_name(name) for name, column in named])
    return replace(rows, schema=schema, columns=dict(named))
