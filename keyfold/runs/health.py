"""Serve the health and metrics of a continuous run on loopback: `/health`, and `/metrics` in Prometheus' text format.

Each request reads the journal. So there are no separate counters, and a restart loses no count.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from keyfold import ingestion
from keyfold.errors import KeyfoldError, Misconfigured
from keyfold.journal.records import Done, Plan
from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse
from keyfold.machine.loopback import LoopbackHandler, LoopbackServer

STALLED = 300.0
"""Seconds after which a planned batch without commit record makes `/health` return 503."""


@dataclass(frozen=True)
class Facts:
    """The facts that health and metrics report.

    Attributes:
        labels: labels of every metric: the job or the stream.
        last: the newest commit record; None before the first.
        pending_since: when the oldest pending batch was planned; None without pending batches.
        counters: samples by metric, each with its own labels.
        gauges: values by metric.
    """

    labels: dict[str, str]
    last: Done | None = None
    pending_since: datetime | None = None
    counters: dict[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)


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


def facts_of_job(lakehouse: Lakehouse, job: str) -> Facts:
    """Read the facts of a job from the journal of its live generation."""
    labels = {"job": job}
    generation = live_generation(lakehouse, job)
    done = generation.journal.last_done() if generation else None
    if generation is None or done is None:
        return Facts(labels)
    rows = [({"table": name}, float(count)) for name, count in done.total_rows.items()]
    gauges = {
        "keyfold_open_events": float(done.open_events),
        # The first watermark is in the year 1, which would spoil a plot.
        "keyfold_watermark_timestamp_seconds": max(done.watermark.timestamp(), 0.0),
    }
    # The newest arrival of any input: a job is silent when all of them are.
    if arrivals := [one.arrived_at for one in done.times.values() if one.arrived_at is not None]:
        gauges["keyfold_silent_seconds"] = (datetime.now(UTC) - max(arrivals)).total_seconds()
    counters = {"keyfold_events_total": [({}, float(done.total_events))], "keyfold_rows_total": rows}
    return Facts(labels, done, _planned_at(generation.journal.pending()), counters, gauges)


def facts_of_ingest(lakehouse: Lakehouse, stream: str) -> Facts:
    """Read the facts of a stream from the journal of its ingest."""
    labels, journal = {"stream": stream}, ingestion.ingest_journal(lakehouse, stream)
    done = journal.last_done()
    if done is None:
        return Facts(labels)
    counts = done.totals
    kinds = {"accepted": counts.accepted, "quarantined": counts.quarantined, "duplicate": counts.duplicates}
    counters = {"keyfold_read_rows_total": [({"result": kind}, float(count)) for kind, count in kinds.items()]}
    gauges = {"keyfold_silent_seconds": (datetime.now(UTC) - done.finished_at).total_seconds()}
    return Facts(labels, done, _planned_at(journal.pending()), counters, gauges)


@contextmanager
def served_on_loopback(port: int | None, facts: Callable[[], Facts]) -> Iterator[None]:
    """Serve `/health` and `/metrics` on 127.0.0.1 within a `with` block; None as port serves nothing.

    Raises:
        KeyfoldError: the port is taken.
    """
    if port is None:
        yield
        return
    try:
        server = _Server(port, facts)
    except OSError as error:
        raise Misconfigured(f"port {port} on 127.0.0.1 is not available ({error.strerror}); choose another") from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def health(facts: Facts) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and the content of `/health`: 503 if a batch has been pending for longer than `STALLED`."""
    pending = _pending_seconds(facts)
    is_stalled = pending > STALLED
    content = {
        "status": "stalled" if is_stalled else "ok",
        **facts.labels,
        "last_batch": facts.last.batch if facts.last else None,
        "last_batch_at": facts.last.finished_at.isoformat() if facts.last else None,
        "pending_seconds": round(pending, 1),
    }
    return 503 if is_stalled else 200, content


def metrics(facts: Facts) -> str:
    """Format the facts in Prometheus' text format."""
    counters, gauges = dict(facts.counters), dict(facts.gauges)
    counters["keyfold_batches_total"] = [({}, float(facts.last.batch + 1 if facts.last else 0))]
    gauges["keyfold_pending_seconds"] = _pending_seconds(facts)
    if facts.last is not None:
        gauges["keyfold_last_batch_timestamp_seconds"] = facts.last.finished_at.timestamp()
        gauges["keyfold_last_batch_seconds"] = facts.last.seconds
    lines: list[str] = []
    for kind, samples in (("counter", counters), ("gauge", {name: [({}, one)] for name, one in gauges.items()})):
        for name, values in samples.items():
            lines += [f"# HELP {name} {MEANING[name]}", f"# TYPE {name} {kind}"]
            for more, value in values:
                labels = ",".join(f"{label}={json.dumps(text)}" for label, text in {**facts.labels, **more}.items())
                lines.append(f"{name}{{{labels}}} {value:.17g}")
    return "\n".join(lines) + "\n"


def _pending_seconds(facts: Facts) -> float:
    return 0.0 if facts.pending_since is None else (datetime.now(UTC) - facts.pending_since).total_seconds()


def _planned_at(pending: "list[Any]") -> datetime | None:
    plans: list[Plan] = pending
    return plans[0].planned_at if plans else None


class _Server(LoopbackServer):
    def __init__(self, port: int, facts: Callable[[], Facts]) -> None:
        super().__init__(port, _Handler)
        self.facts = facts


class _Handler(LoopbackHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def answer(self) -> None:
        try:
            if self.path == "/metrics":
                self.send(200, "text/plain; version=0.0.4; charset=utf-8", metrics(self.server.facts()))
            elif self.path == "/health":
                status, content = health(self.server.facts())
                self.send(status, "application/json", json.dumps(content) + "\n")
            else:
                self.send(404, "text/plain", "there is /health and /metrics\n")
        except (KeyfoldError, OSError) as error:
            self.send(500, "text/plain", f"{error}\n")
