"""Continuous ingest, and what goes with it: its tables are maintained, its health and metrics can be served."""

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

from pyspark.sql import SparkSession

from keyfold.ingestion import IngestSummary, Landing, continuous
from keyfold.ingestion.sources.files import SETTLE
from keyfold.journal.clock import LOOK_EVERY
from keyfold.journal.progress import Progress
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.recording import record_ingest
from keyfold.runs.health import facts_of_ingest, served_on_loopback
from keyfold.runs.table_care import TableCare, tables_of_ingest
from keyfold.stream import Stream


def ingest_continuously(
    spark: SparkSession,
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing | None = None,
    *,
    sharing: Sequence[Stream] = (),
    settle: timedelta = SETTLE,
    every: timedelta = LOOK_EVERY,
    stop: threading.Event | None = None,
    on_batch: Callable[[Progress], None] | None = None,
    metrics_port: int | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> IngestSummary:
    """Ingest files as they land, or messages as they come, until `stop` is set; the batch under way is finished first.

    Now and then the small files of the streams' tables are joined.

    Args:
        spark, lakehouse, stream, landing, sharing, on_batch: as of `ingest`.
        settle: how long a file must have stayed as it is; 0 for producers that rename a whole file into the folder.
        every: from one look at the folder, or topic, to the next.
        stop: ends the ingest when it is set.
        metrics_port: serves `/health` and `/metrics` on this port of 127.0.0.1; None serves nothing.
        on_warning: called when Kafka cannot be reached or answers again, and when maintenance of a table failed.

    Raises:
        KeyfoldError: as `ingest`; or the port is taken.

    Example:
        >>> import threading, keyfold
        >>> from spark_jobs.streams import STREAMS
        >>> stop = threading.Event()
        >>> keyfold.ingest_continuously(spark, lakehouse, STREAMS["rides"], stop=stop)  # doctest: +SKIP
    """
    streams = sharing or [stream]

    def record() -> None:
        for one in streams:
            record_ingest(lakehouse, one.name)

    care = TableCare(
        lakehouse,
        lambda: [table for one in streams for table in tables_of_ingest(lakehouse, one)],
        record,
        on_warning=on_warning,
    )

    def after_batch(progress: Progress) -> None:
        if on_batch is not None:
            on_batch(progress)
        care.after_batch()

    with care, served_on_loopback(metrics_port, lambda: facts_of_ingest(lakehouse, stream.name)):
        return continuous.ingest_continuously(
            spark,
            lakehouse,
            stream,
            landing,
            sharing=sharing,
            settle=settle,
            every=every,
            stop=stop,
            on_batch=after_batch,
            on_outage=on_warning,
        )
