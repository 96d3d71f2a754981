"""Blobs: the form in which a runner shuffles events, the clock and rows of state to state partitions, without decoding them.

Their payloads are frames: as they are within a process, and encoded between processes (`Handover`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, count, zip_longest
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.keyed.calling.slots import Slots, key_groups_of
from keyfold.keyed.rows.codec import decode, encode
from keyfold.keyed.state_parts.manifest import NEVER, Manifest
from keyfold.runners.runner import PARTITION, Runner

BLOBS = pa.schema([(PARTITION, pa.int32()), ("sequence", pa.int64()), ("payload", pa.binary())])
"""A blob of events of a state partition (its label). `sequence` orders the blobs of a batch, or is `CLOCK`."""

CLOCK = -1
"""`sequence` of the blob with the batch's clock."""


class BatchClock(NamedTuple):
    """The number and the clock of a batch, as sent to state partitions. Times are microseconds since 1970.

    Attributes:
        watermarks: of each input, in the order of their declaration; empty for a job with one stream.
        lookups: the stored file of each lookup, by its name.
    """

    batch: int
    previous_watermark: int
    watermark: int
    processing_time: int
    watermarks: Sequence[int] = ()
    lookups: Mapping[str, str] = MappingProxyType({})

    def pack(self) -> bytes:
        """Encode as bytes."""
        return json.dumps(self._asdict() | {"lookups": dict(self.lookups)}).encode()

    @classmethod
    def unpack(cls, payload: bytes) -> "BatchClock":
        """Decode what `pack` encoded."""
        return cls(**json.loads(payload))


class Handover(Protocol):
    """How a frame becomes the payload of a blob, and the payload a frame again, once."""

    def pack(self, frame: pl.DataFrame) -> bytes:
        """Return the payload of a frame."""
        ...

    def unpack(self, payload: bytes | memoryview) -> pl.DataFrame:
        """Return the frame of a payload."""
        ...


class Encoded:
    """Payloads have the rows, for tasks in other processes."""

    def pack(self, frame: pl.DataFrame) -> bytes:
        """Return the payload of a frame."""
        return encode(frame)

    def unpack(self, payload: bytes | memoryview) -> pl.DataFrame:
        """Return the frame of a payload."""
        return decode(payload)


class InMemory:
    """Payloads are the numbers of frames that stay in memory: encoding and decoding them takes a fifth of a batch's time."""

    def __init__(self) -> None:
        self._frames: dict[int, pl.DataFrame] = {}
        self._numbers = count()

    def pack(self, frame: pl.DataFrame) -> bytes:
        """Keep a frame, and return the payload that stands for it."""
        number = next(self._numbers)
        self._frames[number] = frame
        return number.to_bytes(8, "big")

    def unpack(self, payload: bytes | memoryview) -> pl.DataFrame:
        """Return the frame that a payload stands for, and keep it no longer."""
        return self._frames.pop(int.from_bytes(payload, "big"))


def handover_for(runner: Runner) -> Handover:
    """Return how frames are handed over between the tasks of a runner, for one exchange."""
    return InMemory() if runner.in_one_process else Encoded()


def partition_numbers(slots: Slots, partitions: int) -> np.ndarray:
    """Return the state partition of each slot."""
    # 16 bits are enough, and `cut_rows` sorts them fast.
    return (key_groups_of(slots) % np.uint64(partitions)).astype(np.uint16)


def cut_rows(rows: pl.DataFrame, parts: np.ndarray, of_parts: int, handover: Handover) -> list[tuple[int, bytes]]:
    """Make a payload of the rows of each part; returns the numbers of the parts that have rows, with their payloads."""
    # NumPy's stable sort of 16-bit numbers is a radix sort: several times as fast as sorting the frame.
    order = np.argsort(parts, kind="stable")
    counts = np.bincount(parts, minlength=of_parts)
    ends = np.cumsum(counts)
    filled = [int(part) for part in np.flatnonzero(counts)]
    if any(kind.is_nested() for kind in rows.dtypes):
        # A slice of a list column refers to all values of the column: encoding it would cost as much as the whole column.
        return [(part, handover.pack(rows[order[ends[part] - counts[part] : ends[part]]])) for part in filled]
    ordered = rows[order]
    return [(part, handover.pack(ordered.slice(ends[part] - counts[part], counts[part]))) for part in filled]


def blobs(partitions: Iterable[int], sequences: list[int], payloads: list[bytes]) -> pa.RecordBatch:
    """Return rows of `BLOBS`."""
    # From buffers: for `pa.array`, pyarrow imports pandas if it is there, which takes 0.4 s. And it would copy the payloads.
    ends = np.array([0, *accumulate(map(len, payloads))], np.int32)
    buffers = [[np.array(list(partitions), np.int32)], [np.array(sequences, np.int64)], [ends, b"".join(payloads)]]
    columns = [
        pa.Array.from_buffers(kind, len(payloads), [None, *map(pa.py_buffer, of_column)])
        for kind, of_column in zip(BLOBS.types, buffers, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=BLOBS)


class PartitionReport(NamedTuple):
    """The report of a state partition for a batch: events, change of open events, earliest timers, size of its state.

    For a job with several inputs, `by_input` has the number of events of each, in the order of their declaration.
    `written_events` are those of tables whose events count when they are written (`OutputTable.counts_written`).
    """

    events: int
    open_change: int
    deadline: int
    processing_deadline: int
    state_bytes: int
    by_input: tuple[int, ...] = ()
    written_events: int = 0

    def __add__(self, other: "PartitionReport") -> "PartitionReport":  # type: ignore[override]
        return PartitionReport(
            self.events + other.events,
            self.open_change + other.open_change,
            min(self.deadline, other.deadline),
            min(self.processing_deadline, other.processing_deadline),
            self.state_bytes + other.state_bytes,
            tuple(map(sum, zip_longest(self.by_input, other.by_input, fillvalue=0))),
            self.written_events + other.written_events,
        )


NOTHING = PartitionReport(0, 0, NEVER, NEVER, 0)
"""The empty report, to which others are added."""


def report_of(events: int, open_change: int, state: Manifest | None, by_input: tuple[int, ...] = ()) -> PartitionReport:
    """Return the report of a state partition, whose state has this manifest; None for no state."""
    timers = state.timers if state else (NEVER, NEVER)
    return PartitionReport(events, open_change, *timers, state.size if state else 0, by_input)
