"""Report a continuous run to Dagster while it runs, if DAGSTER_HOME names an instance.

A thread reads the journal every half minute, so that batches never wait for Dagster's database. What it could not report is in
the next report, or in that of the next process.
"""

import importlib
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deltalake import DeltaTable

from keyfold import ingestion
from keyfold.errors import KeyfoldError, first_line
from keyfold.journal.consistent_snapshot import snapshot_now
from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse
from keyfold.stream import Stream

EVERY = 30.0
"""Seconds between two reports: each is a row for every table in Dagster's database."""

_LAST_SECONDS = 10.0
"""Time for the last report when the run is stopped."""

_DAGSTER = "keyfold.dagster.run_reports"
"""Loaded by name, and only to report: Keyfold needs no Dagster."""


@dataclass(frozen=True)
class Written:
    """What a job or the ingest of a stream has written by a batch.

    Attributes:
        generation: the job's generation; empty for a stream.
        batch: the newest committed batch.
        finished_at: when it was committed, UTC.
        events: events read since the generation began, or rows read into the stream.
        tables: the tables that it writes, by name, with exactly the rows of these events.
        rows: the rows that it has written to each of them since the generation began.
        side_tables: those of late events, and of quarantined rows.
        watermark: the job's watermark; None for a stream.
        open_events: events in the job's state; None for a stream.
    """

    generation: str
    batch: int
    finished_at: datetime
    events: int
    tables: Mapping[str, DeltaTable]
    rows: Mapping[str, int]
    side_tables: Collection[str]
    watermark: datetime | None = None
    open_events: int | None = None


def written_by_job(lakehouse: Lakehouse, job: str) -> Written | None:
    """Read what a job has written; None before its first batch, and while its tables lack a batch that its journal has."""
    live = live_generation(lakehouse, job)
    last = live.journal.last_done() if live else None
    if live is None or last is None:
        return None
    snapshot = snapshot_now(live.journal, {name: live.table(name) for name in last.total_rows}, live.identity)
    if snapshot is None or not snapshot.is_whole:
        return None
    last = snapshot.record
    return Written(
        live.name,
        last.batch,
        last.finished_at,
        last.total_events,
        snapshot.tables,
        last.total_rows,
        {f"late.{job}"},
        last.watermark,
        last.open_events,
    )


def written_by_ingest(lakehouse: Lakehouse, stream: Stream) -> Written | None:
    """Read what ingest has written for a stream; None before its first batch, and while its tables lack a part of it."""
    snapshot = ingestion.consistent_tables(lakehouse, stream.name)
    if snapshot is None or not snapshot.is_whole:
        return None
    last, events, quarantine = snapshot.record, f"events.{stream.name}", f"quarantine.{stream.name}"
    tables = {events: snapshot.tables["events"], quarantine: snapshot.tables["quarantine"]}
    rows = {events: last.totals.accepted, quarantine: last.totals.quarantined}
    return Written("", last.batch, last.finished_at, last.totals.rows_read, tables, rows, {quarantine})


@contextmanager
def reported(
    look: Callable[[], Written | None], on_warning: Callable[[str], None] | None = None, every: float = EVERY
) -> Iterator[None]:
    """Report within a `with` block what is written, and at its end. Without DAGSTER_HOME, nothing is reported.

    Args:
        look: reads what was written by now.
        on_warning: called when a report fails, and not again until one has succeeded. The run goes on.
        every: seconds between two reports.
    """
    if not os.environ.get("DAGSTER_HOME"):
        yield
        return
    ended = threading.Event()
    # A daemon: a database that does not answer must not keep the process from ending.
    thread = threading.Thread(
        target=_report, args=(look, on_warning or (lambda _: None), every, ended), name="report", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_LAST_SECONDS)


def _report(
    look: Callable[[], Written | None], warn: Callable[[str], None], every: float, ended: threading.Event
) -> None:
    reports: Any = None
    is_last, has_failed = False, False
    while not is_last:
        is_last = ended.wait(every)
        try:
            if (written := look()) is None:
                continue
            if reports is None:
                reports = importlib.import_module(_DAGSTER).DagsterReports()
            reports.report(written)
            has_failed = False
        except Exception as error:  # whatever Dagster's storage raises: the run itself must go on
            if not has_failed:
                # Only the type of a library's error: its text may contain the address of a database.
                reason = first_line(error) if isinstance(error, KeyfoldError) else type(error).__name__
                warn(f"this run cannot be reported to Dagster ({reason}); see the database of DAGSTER_HOME")
            has_failed = True
