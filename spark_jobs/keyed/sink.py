"""The sink: writes what one micro-batch emitted to the job's Delta tables, exactly once, and counts it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.append import append_once
from spark_jobs.keyed.contract import KeyedJob, OutputTable
from spark_jobs.keyed.generations import Generation
from spark_jobs.keyed.operator import EVENTS_IN, OPEN_CHANGE, unpack
from spark_jobs.lakehouse import read_json, write_json

_BATCH_RECORDS_KEPT = 100


@dataclass(frozen=True)
class Counts:
    """What came in and went out: events and rows, of one micro-batch or of all of a generation.

    Attributes:
        events: that reached a step.
        rows: written, by table, the late table too.
        open_events: by how much open state grew; over a whole generation, what is open.
    """

    events: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    open_events: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.events + other.events,
            {name: self.rows.get(name, 0) + other.rows.get(name, 0) for name in {**self.rows, **other.rows}},
            self.open_events + other.open_events,
        )

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(
            self.events - other.events,
            {name: count - other.rows.get(name, 0) for name, count in self.rows.items()},
            self.open_events - other.open_events,
        )


def last_batch(generation: Generation) -> int:
    """The last micro-batch whose counts were written, -1 before the first."""
    return max((int(path.stem) for path in generation.batches.glob("*.json")), default=-1)


def total_counts(generation: Generation) -> Counts:
    """Counts over all of a generation so far."""
    return _totals(generation.batches, last_batch(generation))


@dataclass(frozen=True)
class BatchRecord:
    """What is remembered of a micro-batch: its counts, those of the generation up to it, and when it was written."""

    batch: int
    counts: Counts
    totals: Counts
    written_at: str


def recent_batches(generation: Generation) -> list[BatchRecord]:
    """The records of the last micro-batches, a hundred at most, oldest first."""
    paths = sorted(generation.batches.glob("*.json"), key=lambda path: int(path.stem))[-_BATCH_RECORDS_KEPT:]
    records = [(int(path.stem), read_json(path)) for path in paths]
    return [
        BatchRecord(batch, Counts(**record["batch"]), Counts(**record["totals"]), record["written_at"])
        for batch, record in records
    ]


def sink(
    job: KeyedJob, generation: Generation, on_batch: Callable[[int, Counts], None] | None = None
) -> Callable[[DataFrame, int], None]:
    """Make the foreachBatch function: rows of `operator.EMITTED` to Delta tables and a record of counts.

    `foreachBatch` may call again for a batch that it has called for: each table takes a batch once, known by the
    generation's identity and the batch's number, and the record is written last.
    """

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        try:
            sums = batch.groupBy("table").agg(F.sum("rows").alias("rows"))
            emitted: dict[str, int] = {row["table"]: row["rows"] for row in sums.toLocalIterator()}
            for table in job.tables:
                if emitted.get(table.name):
                    blobs = batch.where(F.col("table") == table.name).select("payload")
                    columns = from_arrow_schema(table.schema, prefer_timestamp_ntz=False)
                    rows = blobs.mapInArrow(unpack(table.schema), columns)
                    _write_once(rows, emitted[table.name], table, generation, batch_id)
        finally:
            batch.unpersist()
        counts = Counts(
            events=emitted.get(EVENTS_IN, 0),
            rows={table.name: emitted.get(table.name, 0) for table in job.tables},
            open_events=emitted.get(OPEN_CHANGE, 0),
        )
        _record(generation.batches, batch_id, counts)
        if on_batch:
            on_batch(batch_id, counts)

    return write


def _write_once(rows: DataFrame, count: int, table: OutputTable, generation: Generation, batch_id: int) -> None:
    path, application = generation.table(table.name), f"{generation.identity}/{table.name}"
    if table.mode == "append":
        append_once(rows, count, path, application, batch_id)
        return
    spark = rows.sparkSession
    settings = {
        "spark.databricks.delta.write.txnAppId": application,
        "spark.databricks.delta.write.txnVersion": str(batch_id),
    }
    from delta.tables import DeltaTable  # noqa: PLC0415 - needs a session with Delta's jar

    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        same_key = " AND ".join(f"kept.`{column}` <=> new.`{column}`" for column in table.key)
        merge = DeltaTable.forPath(spark, str(path)).alias("kept").merge(rows.alias("new"), same_key)
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    finally:
        for name in settings:
            spark.conf.unset(name)


def _totals(batches: Path, batch_id: int) -> Counts:
    path = batches / f"{batch_id:09d}.json"
    return Counts(**read_json(path)["totals"]) if path.exists() else Counts()


def _record(batches: Path, batch_id: int, counts: Counts) -> None:
    record: dict[str, Any] = {
        "batch": asdict(counts),
        "totals": asdict(_totals(batches, batch_id - 1) + counts),
        "written_at": datetime.now(UTC).isoformat(),
    }
    write_json(batches / f"{batch_id:09d}.json", record)
    (batches / f"{batch_id - _BATCH_RECORDS_KEPT:09d}.json").unlink(missing_ok=True)
