"""Run continuous ingest, with maintenance of its tables, health and metrics."""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from functools import partial

from keyfold.ingestion import IngestSummary, Landing
from keyfold.ingestion.continuous import follow_landing
from keyfold.ingestion.listing import SETTLE
from keyfold.ingestion.run import ingest_under_lock
from keyfold.journal.checksums import NOW_AND_THEN
from keyfold.journal.clock import LOOK_EVERY
from keyfold.journal.records import Progress
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.recording import record_ingest
from keyfold.runners import Runners
from keyfold.runs.health import samples_of_ingest, served
from keyfold.runs.reporting import reported, written_by_ingest
from keyfold.runs.table_maintenance import TableMaintenance, tables_of_ingest
from keyfold.session.finishing import batches_are_finished
from keyfold.stream import Stream


def ingest_continuously(
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing | None = None,
    *,
    settle: timedelta = SETTLE,
    every: timedelta = LOOK_EVERY,
    stop: threading.Event | None = None,
    on_batch: Callable[[Progress], None] | None = None,
    metrics: str | None = None,
    on_warning: Callable[[str], None] | None = None,
    runners: Runners | None = None,
) -> IngestSummary:
    """Ingest files or messages as they arrive, until `stop` is set; the batch in progress is finished first.

    The small files of the stream's tables are compacted regularly. If Kafka becomes unreachable after the first run, ingest
    waits for it. If DAGSTER_HOME is set, Dagster shows what was written (`keyfold.runs.reporting`).

    Args:
        lakehouse, stream, landing, on_batch, runners: as in `ingest`.
        settle: how long a file must be unchanged before it is read; 0 for producers that rename whole files into the folder.
        every: interval between two looks at the folder or topic.
        stop: ends the ingest when it is set.
        metrics: where `/health` and `/metrics` are served: a port of 127.0.0.1, or ADDRESS:PORT; None serves nothing.
        on_warning: called when Kafka cannot be reached or answers again, and when maintenance of a table
            or a report to Dagster failed.

    Raises:
        KeyfoldError: as `ingest`; or the address is taken.

    Example:
        >>> import threading, keyfold
        >>> from spark_jobs.streams import STREAMS
        >>> stop = threading.Event()
        >>> keyfold.ingest_continuously(lakehouse, STREAMS["rides"], stop=stop)  # doctest: +SKIP
    """
    runners = runners or Runners.from_environment()
    maintenance = TableMaintenance(
        lakehouse,
        lambda: tables_of_ingest(lakehouse, stream),
        lambda: record_ingest(lakehouse, stream.name),
        on_warning=on_warning,
    )

    def after_batch(progress: Progress) -> None:
        if on_batch is not None:
            on_batch(progress)
        maintenance.after_batch()

    with (
        batches_are_finished() if stop else nullcontext(),
        maintenance,
        served(metrics, lambda: samples_of_ingest(lakehouse, stream.name)),
        reported(lambda: written_by_ingest(lakehouse, stream), on_warning),
    ):
        ingest = partial(
            ingest_under_lock,
            runners,
            lakehouse,
            stream,
            settle=settle,
            on_batch=after_batch,
            checksums_every=NOW_AND_THEN,
        )
        stop = stop or threading.Event()
        return follow_landing(
            lakehouse, stream, landing, ingest, runners, settle=settle, every=every, stop=stop, on_outage=on_warning
        )
