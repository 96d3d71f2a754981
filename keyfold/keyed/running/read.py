"""The map side: workers read the planned files themselves, and cut them into one blob a state partition.

Spark's source counts batches and nothing else: a row is a number, its batch and its split in one. The plan of that batch,
which the driver has written to the journal, says what to read; each split reads its share of it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from keyfold.errors import Damaged, InvalidData
from keyfold.journal import Journal
from keyfold.journal.records import Done
from keyfold.keyed.calling.slots import Slots, key_groups_of, partition_labels, slots_of
from keyfold.keyed.generation.batch_records import KeyedPlan, PlannedFile
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.several_inputs import Input, tagged
from keyfold.keyed.rows.codec import conform, encode, polars_schema
from keyfold.keyed.rows.hashing import PartOf
from keyfold.keyed.running.worker import spare_what_is_loaded
from keyfold.lakehouse.parquet import scan_rows
from keyfold.privacy import errors_without_values
from keyfold.storage.place import Place
from keyfold.times import micros

LEAST_SPLITS = 64
"""Into how many shares a batch's reading is split, where the cluster has no more cores: Spark's tasks take several each."""

BLOBS = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("sequence", LongType()),
        StructField("payload", BinaryType()),
    ]
)
"""A blob of events of a state partition (by its label), with its place in the batch; or, with `CLOCK` in place of that, the batch's clock."""

CLOCK = -1
SEED = -2
"""In place of a blob's place, too: rows of state that the partition begins with. Further ones count down from it."""

SEED_RANGES = 16
"""Ranges of slots that a partition's seed is cut into, so that it is taken in a range at a time."""

_ROWS_AT_ONCE = 1_000_000
_BYTES_AT_ONCE = 256 << 20
_ROWS_A_UNIT = 250_000


class BatchClock(NamedTuple):
    """A batch's number, and its clock as it travels to state partitions: microseconds since 1970.

    Of a job with several inputs also the watermark of each, in the order of their declaration, and the kept file of each
    lookup.
    """

    batch: int
    late_watermark: int
    watermark: int
    processing_time: int
    watermarks: Sequence[int] = ()
    lookups: Mapping[str, str] = MappingProxyType({})

    def pack(self) -> bytes:
        """As bytes."""
        return json.dumps(self._asdict() | {"lookups": dict(self.lookups)}).encode()

    @classmethod
    def unpack(cls, payload: bytes) -> "BatchClock":
        """From `pack`."""
        return cls(**json.loads(payload))


class Unit(NamedTuple):
    """Rows of a file that one split holds: `rows` of them from `offset` on. `input` is as which input they are read."""

    number: int
    input: str
    path: Place
    offset: int
    rows: int
    whole: bool


def units(plan: KeyedPlan, tables: dict[str, Place]) -> list[Unit]:
    """What there is to read in a batch, in parts that one reader decodes at a time."""
    return _cut((one.input, tables[one.table], file) for one in plan.inputs for file in one.files)


def _cut(files: Iterable[tuple[str, Place, PlannedFile]], rows_a_unit: int = _ROWS_A_UNIT) -> list[Unit]:
    found: list[Unit] = []
    for name, folder, file in files:
        for offset in range(0, file.rows, rows_a_unit):
            rows = min(rows_a_unit, file.rows - offset)
            found.append(Unit(len(found), name, folder / file.path, offset, rows, file.whole))
    return found


def read_slices(
    job: KeyedJob, journal: Place, tables: dict[str, Place], partitions: int, splits: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow`: numbers of splits in, rows of `BLOBS` out.

    Args:
        job: whose events are read.
        journal: the folder of its journal.
        tables: the folders of its input tables, by name.
        partitions: of the generation's state.
        splits: of the generation's batches: the source counts in them, so that they are the same for its whole life.
    """
    labels = partition_labels(partitions)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark gives a task numbers alone: batch * splits + split. Events never become rows of the JVM.
        numbers = sorted(number for batch in batches for number in batch.column(0).to_pylist())
        if not numbers:
            return
        # Made here, in the worker: the hash is a plug-in whose place on the driver's disk need not be this machine's.
        readers = {name: _reader(job, name, one) for name, one in job.all_inputs.items()}
        split = _splitter(job, labels)
        plan = Journal(journal, KeyedPlan, Done).plan(numbers[0] // splits)
        if plan is None:
            raise Damaged(f"{journal} has no plan of batch {numbers[0] // splits}")
        mine = {number % splits for number in numbers}
        # By one task alone, and whatever there is to read: a partition is called only if a row comes for it.
        if 0 in mine:
            yield _clocks(job, plan, labels)
        if plan.seed is not None:
            yield from _seeds(
                job, labels, [("", journal.parent / "seed", file) for file in plan.seed.files], splits, mine
            )
        waiting: list[pl.DataFrame] = []
        rows = size = 0
        sequence = 0
        for unit in units(plan, tables):
            if unit.number % splits not in mine:
                continue
            frame = readers[unit.input](unit, plan.since, plan.until)
            waiting.append(frame)
            rows, size = rows + frame.height, size + frame.estimated_size()
            if rows >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
                yield from split(pl.concat(waiting, rechunk=True), unit.number)
                waiting, rows, size = [], 0, 0
            sequence = unit.number
        if rows:
            yield from split(pl.concat(waiting, rechunk=True), sequence)

    def guarded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with errors_without_values(f"job {job.name}", job.private):
            yield from read(batches)
        spare_what_is_loaded()

    return guarded


def _clocks(job: KeyedJob, plan: KeyedPlan, labels: tuple[int, ...]) -> pa.RecordBatch:
    """The clock, once for every partition: each is called, whether events came for it or not."""
    # A batch that takes in state has none, and calls no step.
    watermarks = [plan.clock.watermarks.get(name, plan.clock.watermark) for name in job.inputs]
    clock = BatchClock(
        plan.batch,
        micros(plan.clock.late_watermark),
        micros(plan.clock.watermark),
        micros(plan.clock.processing_time),
        tuple(map(micros, watermarks)),
        plan.lookups,
    )
    return _blobs(labels, [CLOCK] * len(labels), [clock.pack()] * len(labels))


def _seeds(
    job: KeyedJob, labels: tuple[int, ...], files: list[tuple[str, Place, PlannedFile]], splits: int, mine: set[int]
) -> Iterator[pa.RecordBatch]:
    """A split's share of the state that a generation begins with, a blob a partition and range of slots."""
    # In large units: each costs a blob a partition and range, and a blob of few rows costs as much as one of many.
    for unit in _cut(files, _ROWS_AT_ONCE):
        if unit.number % splits in mine:
            rows = scan_rows(unit.path, unit.offset, unit.rows).collect().rechunk()
            rows = conform(rows, job.state, "seeded state")
            slots = slots_of(job, rows)
            ranges = key_groups_of(slots) * np.uint64(SEED_RANGES) // np.uint64(job.key_groups)
            parts = _partitions(slots, len(labels)) * SEED_RANGES + ranges.astype(np.uint16)
            for part, payload in _cut_rows(rows, parts, len(labels) * SEED_RANGES):
                partition, number = divmod(part, SEED_RANGES)
                yield _blobs([labels[partition]], [SEED - unit.number * SEED_RANGES - number], [payload])


def _reader(
    job: KeyedJob, name: str, declared: Input
) -> Callable[[Unit, datetime | None, datetime | None], pl.DataFrame]:
    """Make the function that reads a unit's rows of a slice, in the columns of the job's events."""
    wanted, of_all = polars_schema(declared.events), polars_schema(job.events)
    derived = {column: how.expression() if isinstance(how, PartOf) else how for column, how in declared.derived.items()}
    made = set(derived) | ({job.keys_of.column} if job.keys_of is not None else set())
    stored = {column: kind for column, kind in wanted.items() if column not in made}
    made_of = {
        root
        for column, how in declared.derived.items()
        for root in (how.columns if isinstance(how, PartOf) else derived[column].meta.root_names())
    }
    keys_of = job.keys_of
    if keys_of is not None:
        made_of.update(keys_of.values.meta.root_names())
        told = f", or say in `keys_of` which key an event without a {keys_of.column} is of (`otherwise`)"
    else:
        told = ""
    names = [*stored, *sorted(made_of - stored.keys())]
    never_null = list(dict.fromkeys([*job.key, declared.event_time]))

    def read(unit: Unit, since: datetime | None, until: datetime | None) -> pl.DataFrame:
        scan = scan_rows(unit.path, unit.offset, unit.rows)
        if declared.time_from:
            # Before all else: slices, windows and keys are cut by the time that the job goes by.
            scan = scan.with_columns(pl.col(declared.time_from).alias(declared.event_time))
        there = scan.collect_schema()
        # A column that came to the table after the file was written.
        lacking = [pl.lit(None, kind).alias(name) for name, kind in stored.items() if name not in there]
        rows = scan.select(name for name in names if name in there)
        frame = rows.collect().with_columns(lacking)
        # Of a file that lies across an end of the slice, rows are looked at one by one.
        if not unit.whole:
            time = pl.col(declared.event_time)
            if since is not None:
                frame = frame.filter(time >= since)
            if until is not None:
                frame = frame.filter(time < until)
        if derived:
            frame = frame.with_columns(**derived)
        if keys_of is not None:
            frame = keys_of.copies_of(frame)
        frame = frame.select(
            pl.col(name) if frame.schema[name] == kind else pl.col(name).cast(kind) for name, kind in wanted.items()
        )
        lost = [name for name in never_null if frame[name].null_count()]
        if lost:
            raise InvalidData(
                f"job {job.name}: {unit.path} has rows without a value in {', '.join(lost)}, which no event may lack; "
                f"see that whoever wrote them fills it{told}; then run again"
            )
        return tagged(name, declared, frame, of_all) if job.inputs else frame

    return read


def _splitter(job: KeyedJob, labels: tuple[int, ...]) -> Callable[[pl.DataFrame, int], Iterator[pa.RecordBatch]]:
    """Make the function that cuts events into a blob a state partition."""

    def split(events: pl.DataFrame, sequence: int) -> Iterator[pa.RecordBatch]:
        if job.combine is not None:
            events = conform(job.combine(events), job.events, "combined events")
        cut = _cut_rows(events, _partitions(slots_of(job, events), len(labels)), len(labels))
        there, payloads = [labels[partition] for partition, _ in cut], [payload for _, payload in cut]
        yield _blobs(there, [sequence] * len(there), payloads)

    return split


def _partitions(slots: Slots, partitions: int) -> np.ndarray:
    """The state partition of each slot."""
    return (key_groups_of(slots) % np.uint64(partitions)).astype(np.uint16)


def _cut_rows(rows: pl.DataFrame, parts: np.ndarray, count: int) -> list[tuple[int, bytes]]:
    """Rows as a blob a part: the numbers of the parts that have any, each with its rows."""
    # A stable sort of 16-bit numbers is a radix sort: several times as fast as sorting the frame.
    order = np.argsort(parts, kind="stable")
    counts = np.bincount(parts, minlength=count)
    ends = np.cumsum(counts)
    there = [int(one) for one in np.flatnonzero(counts)]
    if any(kind.is_nested() for kind in rows.dtypes):
        # A slice of a list column drags all its values along, and to encode it costs as much as to encode the whole.
        return [(one, encode(rows[order[ends[one] - counts[one] : ends[one]]])) for one in there]
    ordered = rows[order]
    return [(one, encode(ordered.slice(ends[one] - counts[one], counts[one]))) for one in there]


def _blobs(partitions: Iterable[int], sequences: list[int], payloads: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(list(partitions), pa.int32()),
            pa.array(sequences, pa.int64()),
            pa.array(payloads, pa.binary()),
        ],
        names=BLOBS.names,
    )
