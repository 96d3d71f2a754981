"""Read the planned files in workers, and make one blob of events for each state partition.

A runner passes numbers, `batch * splits + split`. A worker reads the plan of that batch from the journal, and then its split's
share of the planned files.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from keyfold.errors import Damaged, InvalidData
from keyfold.journal import Journal
from keyfold.journal.records import Done
from keyfold.keyed.calling.slots import partition_labels, slots_of
from keyfold.keyed.execution.blobs import CLOCK, BatchClock, Handover, blobs, cut_rows, partition_numbers
from keyfold.keyed.execution.failing_event import described_row, failing_event
from keyfold.keyed.generation.batch_records import KeyedPlan
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.event_frames import tagged
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.rows.codec import conform, polars_schema, with_plain_floats
from keyfold.lakehouse.reading import scan_rows
from keyfold.privacy import describe_error, errors_without_values
from keyfold.runners.runner import OnBatches
from keyfold.storage.place import Place
from keyfold.stream.refined import expression_of
from keyfold.times import micros

SPLITS = 64
"""Number of splits of a batch. A task may read several."""

_ROWS_AT_ONCE = 1_000_000
_BYTES_AT_ONCE = 256 << 20
_ROWS_A_UNIT = 250_000


class Unit(NamedTuple):
    """The rows of a file that a reader decodes at once.

    Attributes:
        number: of the unit in its batch; it decides which split reads it.
        input: the input that the rows belong to.
        path: the file.
        offset: the first row.
        rows: number of rows.
        whole: whether all rows of the file are in the batch's slice.
    """

    number: int
    input: str
    path: Place
    offset: int
    rows: int
    whole: bool


def units(plan: KeyedPlan, tables: dict[str, Place]) -> list[Unit]:
    """Divide the files of a batch into units."""
    # The numbers depend on the plan only: a repeated batch reads the same units in the same splits.
    cut: list[Unit] = []
    for input_ in plan.inputs:
        for file in input_.files:
            path = tables[input_.table] / file.path
            for offset in range(0, file.rows, _ROWS_A_UNIT):
                rows = min(_ROWS_A_UNIT, file.rows - offset)
                cut.append(Unit(len(cut), input_.input, path, offset, rows, file.whole))
    return cut


def read_slices(
    job: KeyedJob, journal: Place, tables: dict[str, Place], partitions: int, splits: int, handover: Handover
) -> OnBatches:
    """Make the function that takes numbers of splits and returns rows of `blobs.BLOBS`.

    Args:
        journal: the folder of its journal.
        tables: the folders of its input tables, by name.
        partitions: number of state partitions of the generation.
        splits: number of splits of a batch; it never changes for a generation.
        handover: makes payloads of rows.
    """
    labels = partition_labels(partitions)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Each number is batch * splits + split.
        numbers = sorted(number for batch in batches for number in batch.column(0).to_pylist())
        if not numbers:
            return
        # Made in the worker: expressions with the hash refer to a plug-in file, whose path on the driver may be another.
        readers = {name: _reader(job, name, input_) for name, input_ in job.inputs.items()}
        split = _splitter(job, labels, handover)
        plan = Journal(journal, KeyedPlan, Done).plan(numbers[0] // splits)
        if plan is None:
            raise Damaged(f"{journal} has no plan of batch {numbers[0] // splits}")
        mine = {number % splits for number in numbers}
        # One split sends the clock to all partitions, since a task works only on partitions that get a row.
        if 0 in mine:
            yield _clocks(job, plan, labels)
        waiting: list[pl.DataFrame] = []
        rows = size = 0
        sequence = 0
        for unit in units(plan, tables):
            if unit.number % splits not in mine:
                continue
            frame = readers[unit.input](unit, plan)
            # Several units make one blob per partition: a small blob costs as much as a large one.
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

    return guarded


def _clocks(job: KeyedJob, plan: KeyedPlan, labels: tuple[int, ...]) -> pa.RecordBatch:
    """Make a blob with the clock for every partition, so that those without events are worked on too."""
    watermarks = [plan.clock.watermarks.get(name, plan.clock.watermark) for name in job.inputs]
    clock = BatchClock(
        plan.batch,
        micros(plan.clock.previous_watermark),
        micros(plan.clock.watermark),
        micros(plan.clock.processing_time),
        tuple(map(micros, watermarks)),
        plan.lookups,
    )
    return blobs(labels, [CLOCK] * len(labels), [clock.pack()] * len(labels))


def _reader(job: KeyedJob, name: str, declared: Input) -> Callable[[Unit, KeyedPlan], pl.DataFrame]:
    """Make the function that reads the rows of a unit that are in the batch, in the columns of the job's events."""
    wanted, of_all = polars_schema(declared.schema), polars_schema(job.columns)
    derived = {column: expression_of(expression) for column, expression in declared.derived.items()}
    explode = declared.exploded
    # Columns that are not stored, and below the stored ones that they are computed from.
    new_columns = {*derived, *declared.computed, *([explode.column] if explode is not None else [])}
    stored = {column: kind for column, kind in wanted.items() if column not in new_columns}
    roots, remedy = declared.roots, ""
    if explode is not None:
        remedy = f", or give `explode` the key of an event without a {explode.column} (`otherwise`)"
    names = [*stored, *sorted(roots - stored.keys())]
    never_null = list(dict.fromkeys([*job.key, declared.event_time]))

    def computed(frame: pl.DataFrame) -> pl.DataFrame:
        if derived:
            frame = frame.with_columns(**derived)
        if explode is not None:
            frame = explode.copies_of(frame)
        if declared.computed:
            frame = frame.with_columns(**declared.computed)
        return frame.select(
            pl.col(name) if frame.schema[name] == kind else pl.col(name).cast(kind) for name, kind in wanted.items()
        )

    def read(unit: Unit, plan: KeyedPlan) -> pl.DataFrame:
        scan = declared.wanted(scan_rows(unit.path, unit.offset, unit.rows))
        if declared.time_from:
            # First of all: slices, windows and derived columns use the time that the job goes by.
            scan = scan.with_columns(pl.col(declared.time_from).alias(declared.event_time))
        in_file = scan.collect_schema()
        is_of_share = None if plan.share is None else plan.share.condition(of_all)
        has_key = (
            plan.share is not None and in_file.keys() >= {*plan.share.key} and new_columns.isdisjoint(plan.share.key)
        )
        if is_of_share is not None and has_key:
            # Before anything is computed of the other keys' rows.
            scan = scan.filter(is_of_share)
        # Files that were written before a column was added to the table lack it.
        lacking = [pl.lit(None, kind).alias(name) for name, kind in stored.items() if name not in in_file]
        rows = scan.select(name for name in names if name in in_file)
        frame = rows.collect().with_columns(lacking)
        # The file has rows of other slices too.
        if not unit.whole:
            time = pl.col(declared.event_time)
            if plan.since is not None:
                frame = frame.filter(time >= plan.since)
            if plan.until is not None:
                frame = frame.filter(time < plan.until)
        try:
            frame = computed(frame)
        except pl.exceptions.PolarsError as error:
            failing = failing_event(lambda rows: _fails(computed, rows), frame)
            row_text = f"; {described_row(job, declared, failing)}" if failing else ""
            raise InvalidData(
                f"job {job.name}: a column of its events cannot be computed from {unit.path}: "
                f"{describe_error(error, job.private)}{row_text}"
            ) from (None if job.private else error)
        # A NULL key has no hash, and an event without a time is in no slice.
        if without := [name for name in never_null if frame[name].null_count()]:
            raise InvalidData(
                f"job {job.name}: {unit.path} has rows without a value in {', '.join(without)}, which no event may lack; "
                f"correct the program that wrote them{remedy}; then run again"
            )
        if is_of_share is not None and not has_key:
            frame = frame.filter(is_of_share)
        frame = with_plain_floats(frame)
        return tagged(job.inputs, name, frame, of_all)

    return read


def _fails(computed: Callable[[pl.DataFrame], pl.DataFrame], rows: pl.DataFrame) -> bool:
    try:
        computed(rows)
    except pl.exceptions.PolarsError:
        return True
    return False


def _splitter(
    job: KeyedJob, labels: tuple[int, ...], handover: Handover
) -> Callable[[pl.DataFrame, int], Iterator[pa.RecordBatch]]:
    """Make the function that divides events into one blob for each state partition."""
    combine = job.only_input.combine if len(job.inputs) == 1 else None

    def split(events: pl.DataFrame, sequence: int) -> Iterator[pa.RecordBatch]:
        if combine is not None:
            events = conform(combine(events), job.columns, "combined events")
        cut = cut_rows(events, partition_numbers(slots_of(job, events), len(labels)), len(labels), handover)
        there, payloads = [labels[partition] for partition, _ in cut], [payload for _, payload in cut]
        yield blobs(there, [sequence] * len(there), payloads)

    return split
