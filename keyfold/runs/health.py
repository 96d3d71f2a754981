"""The health and the metrics of a continuous run, served at `/health` and, for Prometheus, at `/metrics`.

Each request reads the journal. So there are no separate counters, and a restart loses no count.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any

from keyfold import ingestion
from keyfold.journal.records import Done
from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse

STALLED = 300.0
"""Seconds after which a planned batch without commit record makes `/health` answer 503."""

STALE = timedelta(hours=26)
"""How far a watermark may be behind the clock: a daily delivery, and two hours to process it."""

MEANING = {
    "keyfold_batches_total": "Committed batches.",
    "keyfold_events_total": "Events that reached the job's step.",
    "keyfold_rows_total": "Rows written, by table.",
    "keyfold_read_rows_total": "Rows read, by result: accepted, quarantined or duplicate.",
    "keyfold_open_events": "Events in open state.",
    "keyfold_watermark_timestamp_seconds": "The watermark.",
    "keyfold_last_batch_timestamp_seconds": "When the last batch was committed.",
    "keyfold_last_batch_seconds": "Duration of the last batch.",
    "keyfold_silent_seconds": "Processing time since the last batch with events.",
    "keyfold_pending_seconds": "Time since the oldest uncommitted batch was planned; 0 if there is none.",
}

Samples = list[tuple[str, dict[str, str], float]]
"""Metrics, each with its labels and its value."""


def samples_of_job(lakehouse: Lakehouse, job: str) -> Samples:
    """Read the metrics of a job from the journal of its live generation."""
    # Not `job`: Prometheus has a label of that name, and would rename ours.
    labels, generation = {"keyed_job": job}, live_generation(lakehouse, job)
    done = generation.journal.last_done() if generation else None
    samples = _of_journal(labels, done, generation.journal.pending() if generation else ())
    if done is None:
        return samples
    # The newest arrival of any input: a job is silent when all of them are.
    arrivals = [one.arrived_at for one in done.times.values() if one.arrived_at is not None]
    return [
        *samples,
        ("keyfold_events_total", labels, done.total_events),
        *(("keyfold_rows_total", labels | {"table": table}, count) for table, count in done.total_rows.items()),
        ("keyfold_open_events", labels, done.open_events),
        # The first watermark is in the year 1, which would spoil a plot.
        ("keyfold_watermark_timestamp_seconds", labels, max(done.watermark.timestamp(), 0.0)),
        *(("keyfold_silent_seconds", labels, _since(newest)) for newest in sorted(arrivals)[-1:]),
    ]


def samples_of_ingest(lakehouse: Lakehouse, stream: str) -> Samples:
    """Read the metrics of a stream from the journal of its ingest."""
    labels, journal = {"stream": stream}, ingestion.ingest_journal(lakehouse, stream)
    done = journal.last_done()
    samples = _of_journal(labels, done, journal.pending())
    if done is None:
        return samples
    counts = done.totals
    kinds = {"accepted": counts.accepted, "quarantined": counts.quarantined, "duplicate": counts.duplicates}
    read: Samples = [("keyfold_read_rows_total", labels | {"result": kind}, count) for kind, count in kinds.items()]
    return [*samples, *read, ("keyfold_silent_seconds", labels, _since(done.finished_at))]


def health(samples: Samples) -> tuple[str, str]:
    """Return the status and the text of `/health`: 503 if a batch has been pending for longer than `STALLED`."""
    pending = max((value for name, _, value in samples if name == "keyfold_pending_seconds"), default=0.0)
    if pending > STALLED:
        return "503 Service Unavailable", f"stalled: a batch was planned {pending:.0f} s ago and is not done"
    return "200 OK", "ok"


@contextmanager
def served(address: str | None, samples: Callable[[], Samples]) -> Iterator[None]:
    """Serve `/health` and `/metrics` within a `with` block; None serves nothing.

    Args:
        address: a port of loopback, `9100`; or an IPv4 address of this machine and a port, `0.0.0.0:9100`.
        samples: called for each request.

    Raises:
        KeyfoldError: the address is not valid, or is taken.
    """
    if address is None:
        yield
        return
    # Imported late: only runs that serve need Prometheus' library.
    from keyfold.runs.metrics_server import metrics_server  # noqa: PLC0415

    server = metrics_server(address, samples)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _of_journal(labels: dict[str, str], done: Done | None, pending: Sequence[Any]) -> Samples:
    samples: Samples = [
        ("keyfold_batches_total", labels, done.batch + 1 if done else 0),
        ("keyfold_pending_seconds", labels, _since(pending[0].planned_at) if pending else 0.0),
    ]
    if done is not None:
        samples.append(("keyfold_last_batch_timestamp_seconds", labels, done.finished_at.timestamp()))
        samples.append(("keyfold_last_batch_seconds", labels, done.seconds))
    return samples


def _since(time: datetime) -> float:
    return (datetime.now(UTC) - time).total_seconds()
