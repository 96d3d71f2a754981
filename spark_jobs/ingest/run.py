"""A run of ingest: everything new in a landing folder goes to the stream's tables, and the run ends."""

import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.errors import KeyfoldError
from spark_jobs.ingest.admission import admit
from spark_jobs.ingest.batch import BatchWriter, committed, ensure_table
from spark_jobs.ingest.counts import Counts, Ledger, ingest_totals
from spark_jobs.lakehouse import Lakehouse, exclusive
from spark_jobs.parsing import parse_files, parsed_schema
from spark_jobs.streams import Stream

MAX_BYTES_PER_BATCH = 256 << 20

_NEVER = "36500d"
"""The file source forgets files older than this behind the newest, and so would leave out those filled in later."""

_FILES = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
"""The columns that Spark's binary file source has to have; contents that nobody selects are not read."""

QUARANTINE = pa.schema(
    [
        ("raw", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("reason", pa.string()),
        ("batch", pa.int64()),
    ]
)


@dataclass(frozen=True)
class IngestSummary:
    """What one run did.

    Attributes:
        stream: the stream's name.
        files, rows_read, accepted, quarantined, duplicates: this run's counts.
        totals: the same counts over all runs of all sources of the stream.
        waiting: files that are not whole yet and wait for a later run.
        batches: micro-batches of this run.
        seconds: how long it took.
    """

    stream: str
    files: int
    rows_read: int
    accepted: int
    quarantined: int
    duplicates: int
    waiting: int
    totals: Counts
    batches: int
    seconds: float


def ingest(
    spark: SparkSession,
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Path | None = None,
    *,
    settle: timedelta = timedelta(0),
    on_batch: Callable[[int, Counts], None] | None = None,
    max_bytes_per_batch: int = MAX_BYTES_PER_BATCH,
) -> IngestSummary:
    """Ingest the files that are new in a landing folder, in subfolders too; killed at any moment, run it again.

    Files are told apart by their paths and read once, so only those that are whole are read: see `landing` for what
    makes a file whole, and `admission` for how the others are kept from Spark.

    Args:
        spark: the session.
        lakehouse: where the tables are.
        stream: what the files hold.
        landing: the folder; by default the lakehouse's own for the stream.
        settle: how long a file must have stayed as it is; 0 where nobody writes while this runs. A stream with
            done-markers goes by them.
        on_batch: called with the batch id and its counts after each batch is committed.
        max_bytes_per_batch: size of the files that one micro-batch takes; it takes one at least.

    Raises:
        KeyfoldError: the folder is missing or cannot be read, the tables do not fit the stream, or the stream is being
            ingested already.
    """
    began = time.monotonic()
    landing = (landing or lakehouse.landing(stream.name)).expanduser().resolve()
    if not landing.is_dir():
        raise KeyfoldError(f"the landing folder {landing} is not there; create it and put files of {stream.name} in it")
    # One run a stream, not a source: duplicates are looked up in a table that nobody else may add to meanwhile.
    with exclusive(lakehouse.ingest(stream.name), f"ingest of {stream.name}"):
        ledger = Ledger(lakehouse.ingest(stream.name) / source_id(landing))
        ensure_table(lakehouse.events(stream.name), stream.schema, ingest_totals(lakehouse, stream))
        ensure_table(lakehouse.quarantine(stream.name), QUARANTINE, Counts())
        run = ledger.open(landing, committed(lakehouse.events(stream.name)))
        batches = int(run != Counts())
        writer = BatchWriter(spark, lakehouse, stream, ledger)

        def write(parsed: DataFrame, batch: int) -> None:
            nonlocal run, batches
            counts = writer.write(parsed, batch)
            if counts is not None:
                run, batches = run + counts, batches + 1
                if on_batch is not None:
                    on_batch(batch, counts)

        listed, waiting = landing, 0
        if ledger.admits():
            listed = ledger.links
            waiting = admit(landing, listed, settle=settle, done_marker=stream.done_marker)
        parsed = _parsed(spark, stream, landing, listed, max_bytes_per_batch)
        _run_query(parsed, ledger.checkpoint, write)
        return IngestSummary(
            stream=stream.name,
            files=run.files,
            rows_read=run.rows_read,
            accepted=run.accepted,
            quarantined=run.quarantined,
            duplicates=run.duplicates,
            waiting=waiting,
            totals=ingest_totals(lakehouse, stream),
            batches=batches,
            seconds=time.monotonic() - began,
        )


def source_id(landing: Path) -> str:
    """The name of a landing folder's checkpoint and counts."""
    return hashlib.sha256(str(landing).encode()).hexdigest()[:12]


def _parsed(spark: SparkSession, stream: Stream, landing: Path, listed: Path, max_bytes: int) -> DataFrame:
    """The landing files as a streaming frame of parsed rows.

    Spark lists the links and remembers them; the workers open them by path. Its own readers know no line numbers, and
    emit rows of a file before they find it broken.
    """
    files = (
        spark.readStream.format("binaryFile")
        .schema(_FILES)
        .option("recursiveFileLookup", "true")
        .option("maxFileAge", _NEVER)
        .option("maxBytesPerTrigger", max_bytes)
        .load(re.sub(r"([\[\]{}*?\\])", r"\\\1", str(listed)))
        .select(F.replace("path", F.lit(str(listed)), F.lit(str(landing))).alias("path"), "modificationTime")
    )
    return files.mapInArrow(parse_files(stream, landing), from_arrow_schema(parsed_schema(stream)))


def _run_query(parsed: DataFrame, checkpoint: Path, write: Callable[[DataFrame, int], None]) -> None:
    """Run to the end of what is there now; what a batch raised is raised here as it was."""
    raised: list[Exception] = []

    def write_or_tell(batch_rows: DataFrame, batch: int) -> None:
        try:
            write(batch_rows, batch)
        except Exception as error:
            raised.append(error)
            raise

    query = (
        parsed.writeStream.foreachBatch(write_or_tell)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if raised:
            raise raised[0] from None
        raise
    finally:
        query.stop()
