"""Write the emitted blobs as data files of the job's tables, in workers, and report the files to the driver in a few rows."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import StringType, StructField, StructType

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.rows.codec import decode
from keyfold.keyed.running.partition_report import DROPPED, NOTHING, REPORT, PartitionReport
from keyfold.keyed.running.worker import freeze_loaded_modules
from keyfold.lakehouse.data_files import STAGED, WrittenFile, write_data_file
from keyfold.lakehouse.fail_points import reached
from keyfold.privacy import errors_without_values
from keyfold.storage.place import Place

WORKED = StructType([StructField("table", StringType()), StructField("report", StringType())])
"""A task's report as JSON: a file of a table, or (table `partition_report.REPORT`) the sum of its partitions' reports."""

_ROWS_A_FILE = 1_000_000
_BYTES_A_FILE = 256 << 20


@dataclass
class BatchResult:
    """The result of a batch, from the reports of all its tasks.

    Attributes:
        files: the written files, by table.
        report: the sum over all state partitions.
        dropped: files of parts that the state no longer needs.
    """

    files: dict[str, list[WrittenFile]] = field(default_factory=dict)
    report: PartitionReport = NOTHING
    dropped: list[str] = field(default_factory=list)


def write_tables(
    job: KeyedJob, folders: dict[str, Place]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` that takes rows of `processor.EMITTED`, writes data files, and returns `WORKED`.

    Args:
        folders: the folders of its tables, by name; rows of an upsert table are staged there.
    """
    tables = {table.name: table for table in job.tables}

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: dict[str, list[pl.DataFrame]] = {}
        sizes: dict[str, tuple[int, int]] = {}
        report = NOTHING
        for batch in batches:
            for name, payload in zip(batch.column("table").to_pylist(), batch.column("payload"), strict=True):
                if name == REPORT:
                    report += PartitionReport.unpack(payload.as_py())
                    continue
                if name == DROPPED:
                    yield _row(DROPPED, {"files": payload.as_py().decode().split("\n")})
                    continue
                # As a buffer: `as_py` would copy the blob.
                frame = decode(payload.as_buffer())
                # Collect the frames of several calls of the step: a file per call would be too small.
                waiting.setdefault(name, []).append(frame)
                rows, size = sizes.get(name, (0, 0))
                sizes[name] = rows + frame.height, size + int(frame.estimated_size())
                # A task may emit more than fits into a worker's memory.
                if sizes[name][0] >= _ROWS_A_FILE or sizes[name][1] >= _BYTES_A_FILE:
                    yield _row(name, _write(tables[name], folders[name], waiting.pop(name)).model_dump())
                    sizes[name] = 0, 0
        for name, frames in waiting.items():
            yield _row(name, _write(tables[name], folders[name], frames).model_dump())
        reached("work: files written")
        yield _row(REPORT, report._asdict())

    def guarded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with errors_without_values(f"job {job.name}", job.private):
            yield from write(batches)
        freeze_loaded_modules()

    return guarded


def read_reports(rows: Sequence[Row]) -> BatchResult:
    """Combine the reports of all tasks of a batch."""
    worked = BatchResult()
    for row in rows:
        report: dict[str, Any] = json.loads(row["report"])
        if row["table"] == REPORT:
            worked.report += PartitionReport(**report)
        elif row["table"] == DROPPED:
            worked.dropped += report["files"]
        else:
            worked.files.setdefault(row["table"], []).append(WrittenFile(**report))
    return worked


def _write(table: OutputTable, folder: Place, frames: list[pl.DataFrame]) -> WrittenFile:
    # Rows of an upsert table are merged later: stage them in a folder that Delta ignores.
    staged = STAGED if table.mode == "upsert" else ""
    return write_data_file(pl.concat(frames, rechunk=False), folder, table.schema, staged)


def _row(table: str, report: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"table": table, "report": json.dumps(report)}], schema=_WORKED)


_WORKED = pa.schema([("table", pa.string()), ("report", pa.string())])
