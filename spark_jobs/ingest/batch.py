"""One micro-batch of ingest: count, find duplicates, commit rejects, commit events, make the counts final."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, Schema
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.append import append_once
from spark_jobs.errors import KeyfoldError
from spark_jobs.ingest.counts import Counts, Ledger
from spark_jobs.ingest.duplicates import event_id, find_duplicates
from spark_jobs.lakehouse import Lakehouse, create_table, is_table
from spark_jobs.streams import Stream

ACCEPTED = "line IS NOT NULL AND reason IS NULL"
REJECTED = "reason IS NOT NULL"


class BatchWriter:
    """Takes parsed micro-batches to a stream's tables; a batch that comes twice leaves one trace.

    Both appends carry the checkpoint's name and the batch id, by which Delta skips a second one. Counts and duplicates
    of a replay are worked out anew only while the events are not in: afterwards the batch would meet its own rows.
    """

    def __init__(self, spark: SparkSession, lakehouse: Lakehouse, stream: Stream, ledger: Ledger) -> None:
        self._spark = spark
        self._stream = stream
        self._ledger = ledger
        self._events = lakehouse.events(stream.name)
        self._quarantine = lakehouse.quarantine(stream.name)
        self._checkpoint = ledger.name()

    def write(self, parsed: DataFrame, batch: int) -> Counts | None:
        """Commit a batch of parsed rows; None when an earlier run had done so."""
        if self._ledger.is_final(batch):
            return None
        parsed = parsed.persist()
        duplicates = None
        try:
            counts, span, repeats = self._count(parsed)
            accepted = parsed.where(ACCEPTED)
            if self._stream.event_id and counts.accepted:
                duplicates = find_duplicates(
                    self._spark, self._stream, accepted, self._events, span, repeats=repeats
                )  # fmt: skip
            if duplicates is not None:
                duplicates = duplicates.persist()
                found = duplicates.count()
                counts += Counts(accepted=-found, duplicates=found)
                if found:
                    accepted = accepted.join(duplicates, ["file", "line"], "left_anti")
            self._commit(parsed, accepted, batch, counts)
        finally:
            parsed.unpersist()
            if duplicates is not None:
                duplicates.unpersist()
        return counts

    def _commit(self, parsed: DataFrame, accepted: DataFrame, batch: int, counts: Counts) -> None:
        """Rejects first: once the events are in, the batch counts as done."""
        if counts.quarantined:
            rejects = parsed.where(REJECTED).select("raw", "file", "line", "reason")
            rejects = rejects.withColumn("batch", F.lit(batch).cast("long"))
            append_once(rejects, counts.quarantined, self._quarantine, self._checkpoint, batch)
        self._ledger.write_ahead(batch, counts)
        if counts.accepted:
            events = accepted.select(self._stream.schema.names)
            append_once(events, counts.accepted, self._events, self._checkpoint, batch)
        self._ledger.settle(batch)

    def _count(self, parsed: DataFrame) -> tuple[Counts, tuple[int, int], bool]:
        """The counts but for duplicates, the span of event times, and whether any id comes twice."""
        time = F.unix_micros(F.col(self._stream.event_time))
        accepted = F.expr(ACCEPTED)
        aggregates = [
            F.count_if(accepted).alias("accepted"),
            F.count_if(F.expr(REJECTED)).alias("rejected"),
            F.count_if(F.col("line").isNull()).alias("files"),
            F.min(F.when(accepted, time)).alias("first"),
            F.max(F.when(accepted, time)).alias("last"),
        ]
        if self._stream.event_id:
            # equal hashes of two ids only cost a closer look
            hashed = F.xxhash64(event_id(self._stream))
            aggregates.append(F.count_distinct(F.when(accepted, hashed)).alias("ids"))
        row = parsed.agg(*aggregates).first() or Row()
        counts = Counts(row["files"], row["accepted"] + row["rejected"], row["accepted"], row["rejected"])
        repeats = bool(self._stream.event_id) and row["ids"] < row["accepted"]
        return counts, (row["first"], row["last"]), repeats


def committed(events: Path) -> Callable[[str, int], bool]:
    """Tells whether the rows of a (checkpoint name, batch id) are in the event table."""

    def is_in(checkpoint: str, batch: int) -> bool:
        version = DeltaTable(str(events)).transaction_version(checkpoint)
        return version is not None and version >= batch

    return is_in


def ensure_table(path: Path, schema: pa.Schema, totals: Counts) -> None:
    """Create a Delta table, empty, so that whoever comes next can read it.

    Raises:
        KeyfoldError: there is one with other columns, or there was one and it is gone.
    """
    if not is_table(path):
        if totals.accepted:
            raise KeyfoldError(
                f"{path} is gone, yet {totals.accepted} events were ingested into it; restore it, or remove the "
                "stream's ingest folder to read all its landing files again"
            )
        create_table(path, schema)
        return
    wanted = {field.name: field.type for field in Schema.from_arrow(schema).fields}
    found = {field.name: field.type for field in DeltaTable(str(path)).schema().fields}
    if found != wanted:
        differ = ", ".join(sorted(name for name in wanted | found if wanted.get(name) != found.get(name)))
        raise KeyfoldError(
            f"{path} and its stream differ in {differ}; alter the table to match, or remove it together with the "
            "stream's ingest folder to read all its landing files again"
        )
