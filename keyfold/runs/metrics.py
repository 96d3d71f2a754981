"""What `/health` and, for Prometheus, `/metrics` say of a continuous run, from its `Health`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from keyfold.ingestion.ingest_records import IngestDone
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.runs.health import Health

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


def metrics_of(health: Health) -> Samples:
    """Return the metrics of a stream or a job; a disk has none."""
    if health.kind == "disk":
        return []
    # Not `job`: Prometheus has a label of that name, and would rename ours.
    labels = {"keyed_job" if health.kind == "job" else "stream": health.name}
    last, pending = health.done, health.pending
    samples: Samples = [
        ("keyfold_batches_total", labels, last.batch + 1 if last else 0),
        ("keyfold_pending_seconds", labels, pending.total_seconds() if pending else 0.0),
    ]
    if last is not None:
        samples.append(("keyfold_last_batch_timestamp_seconds", labels, last.finished_at.timestamp()))
        samples.append(("keyfold_last_batch_seconds", labels, last.seconds))
    newest = None
    if isinstance(last, KeyedDone):
        # The newest arrival of any input: a job is silent when all of them are.
        newest = max((times.arrived_at for times in last.times.values() if times.arrived_at), default=None)
        samples += [
            ("keyfold_events_total", labels, last.total_events),
            *(("keyfold_rows_total", labels | {"table": table}, count) for table, count in last.total_rows.items()),
            ("keyfold_open_events", labels, last.open_events),
            # The first watermark is in the year 1, which would spoil a plot.
            ("keyfold_watermark_timestamp_seconds", labels, max(last.watermark.timestamp(), 0.0)),
        ]
    elif isinstance(last, IngestDone):
        newest, counts = last.finished_at, last.totals
        results = {"accepted": counts.accepted, "quarantined": counts.quarantined, "duplicate": counts.duplicates}
        samples += [
            ("keyfold_read_rows_total", labels | {"result": result}, count) for result, count in results.items()
        ]
    if newest is not None:
        samples.append(("keyfold_silent_seconds", labels, (health.looked_at - newest).total_seconds()))
    return samples


def answer_of(health: Health) -> tuple[str, str]:
    """Return the status and the text of `/health`: 503 while a batch is pending for longer than `STALLED`."""
    if health.is_stalled:
        return "503 Service Unavailable", f"{health.state}: {health.detail}"
    return "200 OK", "ok"


@contextmanager
def served(address: str | None, look: Callable[[], Health]) -> Iterator[None]:
    """Serve `/health` and `/metrics` within a `with` block; None serves nothing.

    Args:
        address: a port of loopback, `9100`; or an IPv4 address of this machine and a port, `0.0.0.0:9100`.
        look: called for each request.

    Raises:
        KeyfoldError: the address is not valid, or is taken.
    """
    if address is None:
        yield
        return
    # Imported late: only runs that serve need Prometheus' library.
    from keyfold.runs.metrics_server import metrics_server  # noqa: PLC0415

    server = metrics_server(address, look)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
