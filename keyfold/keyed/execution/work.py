"""Work on state partitions in a task: call the operator for each, and write the rows that it yields to data files of the tables.

A task reports the files, the manifests of its partitions and their counts to the driver, in a few rows.
"""

import json
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.keyed.execution.blobs import NOTHING, PartitionReport
from keyfold.keyed.execution.operator import WorkOnPartition
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.generation.manifests import read_manifests
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.lakehouse.data_files import STAGED, WrittenFile, write_data_file
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.merging import check_one_row_per_key
from keyfold.privacy import errors_without_values
from keyfold.runners.runner import OnBatches
from keyfold.storage.place import Place

WORKED = pa.schema([("kind", pa.string()), ("report", pa.string()), ("manifest", pa.binary())])
"""A row of a task's report. `report` is JSON: a written file of the table `kind`; or, for `MANIFEST`, the label of the partition
that now has the manifest (NULL: no state); or, for `REPORT`, the sum of its partitions' reports, and the parts they dropped."""

MANIFEST, REPORT = "#manifest", "#report"

_ROWS_A_FILE = 1_000_000
_BYTES_A_FILE = 256 << 20


@dataclass
class BatchResult:
    """The result of a batch, from the reports of all its tasks.

    Attributes:
        files: the written files, by table.
        report: the sum over all state partitions.
        manifests: the new manifests of changed state partitions, by label; None for a partition that has no state any more.
        dropped: files of parts that the state no longer needs.
    """

    files: dict[str, list[WrittenFile]] = field(default_factory=dict)
    report: PartitionReport = NOTHING
    manifests: dict[int, bytes | None] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)


def work_on_partitions(
    job: KeyedJob, generation: Generation, manifests: Mapping[int, str], work: WorkOnPartition
) -> OnBatches:
    """Make the function that takes rows of `blobs.BLOBS`, all of a state partition together, and returns rows of `WORKED`.

    Args:
        manifests: the file of each partition's manifest, by label.
        work: works on a partition.
    """
    # The parts of a generation that a task needs: a `Generation` would be pickled with its whole record.
    stored = generation.manifests
    folders = {table.name: generation.table(table.name) for table in job.tables}
    tables = {table.name: table for table in job.tables}

    def worked(batches: Iterable[pa.RecordBatch], result: BatchResult) -> Generator[tuple[str, pl.DataFrame]]:
        blobs: dict[int, list[tuple[int, Any]]] = defaultdict(list)
        for batch in batches:
            labels, sequences = batch.column("partition").to_pylist(), batch.column("sequence").to_pylist()
            for label, sequence, payload in zip(labels, sequences, batch.column("payload"), strict=True):
                # As a buffer: `as_py` would copy the blob.
                blobs[label].append((sequence, payload.as_buffer()))
        old = read_manifests(stored, manifests, blobs)
        for label in sorted(blobs):
            before = Manifest.unpack(old[label]) if label in old else None
            report, after, dropped = yield from work(blobs.pop(label), before)
            result.report += report
            result.dropped += dropped
            if after != before:
                result.manifests[label] = after.pack() if after else None

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        result = BatchResult()
        waiting: dict[str, list[pl.DataFrame]] = {}
        sizes: dict[str, tuple[int, int]] = {}
        for name, frame in worked(batches, result):
            # Collect the frames of several calls of the step: a file per call would be too small.
            waiting.setdefault(name, []).append(frame)
            rows, size = sizes.get(name, (0, 0))
            sizes[name] = rows + frame.height, size + int(frame.estimated_size())
            # A task may write more than fits into a worker's memory.
            if sizes[name][0] >= _ROWS_A_FILE or sizes[name][1] >= _BYTES_A_FILE:
                yield _row(name, _write(tables[name], folders[name], waiting.pop(name)).model_dump())
                sizes[name] = 0, 0
        for name, frames in waiting.items():
            yield _row(name, _write(tables[name], folders[name], frames).model_dump())
        fail_point("work: files written")
        for label, manifest in result.manifests.items():
            yield _row(MANIFEST, label, manifest)
        yield _row(REPORT, {"report": result.report._asdict(), "dropped": result.dropped})

    def guarded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with errors_without_values(f"job {job.name}", job.private):
            yield from write(batches)

    return guarded


def read_reports(rows: Sequence[Mapping[str, Any]]) -> BatchResult:
    """Combine the reports of all tasks of a batch."""
    worked = BatchResult()
    for row in rows:
        report = json.loads(row["report"])
        if row["kind"] == REPORT:
            worked.report += PartitionReport(**report["report"])
            worked.dropped += report["dropped"]
        elif row["kind"] == MANIFEST:
            worked.manifests[report] = row["manifest"]
        else:
            worked.files.setdefault(row["kind"], []).append(WrittenFile(**report))
    return worked


def _write(table: OutputTable, folder: Place, frames: list[pl.DataFrame]) -> WrittenFile:
    # Rows of an upsert table are merged later: stage them in a folder that Delta ignores.
    staged, rows = STAGED if table.mode == "upsert" else "", pl.concat(frames, rechunk=False)
    if table.key:
        # Here, before the commit record: rows that cannot be merged would stop the job for good.
        check_one_row_per_key(f"table {table.name}", rows, table.key)
    return write_data_file(rows, folder, table.schema, staged)


def _row(kind: str, report: Any, manifest: bytes | None = None) -> pa.RecordBatch:
    # By Polars: pyarrow imports pandas for a list, if it is there.
    row = {"kind": [kind], "report": [json.dumps(report)], "manifest": [manifest]}
    return pl.DataFrame(row, polars_schema(WORKED)).to_arrow().cast(WORKED).to_batches()[0]
