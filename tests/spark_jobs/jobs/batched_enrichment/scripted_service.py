"""A service that answers as it is told, call by call, and remembers what came."""

import json
import os
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl

from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from spark_jobs.jobs.batched_enrichment.job import BATCHED_ENRICHMENT
from spark_jobs.jobs.batched_enrichment.services import SERVICES_VARIABLE
from tests.shop import NOON


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    """JSON to be, bytes as they are, or None for a good result for every event."""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0
    drip: float = 0
    """Seconds between the bytes of the body."""


@dataclass
class Scripted:
    url: str = ""
    keys: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    events: list[list[Any]] = field(default_factory=list)


@contextmanager
def scripted_service(*answers: Answer, tls: Path | None = None) -> Iterator[Scripted]:
    """Give the answers in turn, and the last one to all calls after it; by TLS if there is a folder with a certificate."""
    told, lock = Scripted(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            events = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["events"]
            with lock:
                answer = answers[min(len(told.keys), len(answers) - 1)]
                told.keys.append(self.headers["Idempotency-Key"])
                told.headers.append(dict(self.headers))
                told.events.append(events)
            time.sleep(answer.delay)
            good = {"results": [{"status": 200, "enrichment": {"n": event["n"]}} for event in events]}
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body or good).encode()
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            for part in [body] if not answer.drip else [body[at : at + 1] for at in range(len(body))]:
                self.wfile.write(part)
                time.sleep(answer.drip)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    told.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}/"
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls / "certificate.pem", tls / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()


NOW = datetime(2026, 2, 1, tzinfo=UTC)


def points(count):
    numbers = pl.DataFrame({"number": range(count)}, schema={"number": pl.Int32})
    return numbers.select(
        ride_id=pl.format("ride-{}", pl.col("number") % 97),
        point_idx="number",
        latitude=40.5 + pl.col("number") / count,
        longitude=-74.5 + pl.col("number") / count,
        timestamp=pl.lit(NOON, dtype=pl.Datetime("us", "UTC")) + pl.duration(milliseconds=pl.col("number") * 20),
        meter_reading=pl.col("number") * 0.01,
        meter_increment=pl.lit(0.01),
        ride_status=pl.lit("enroute"),
        passenger_count=pl.lit(1, pl.Int32),
    )


def in_shards(events, shards=4):
    return events.with_columns(shard=(pl.col("point_idx") * 31 // 7 % shards).cast(pl.Int64))


def job_asking(url, token_variable=None, **parameters):
    """The job in a deployment that names one service."""
    settings = {"geo": {"url": url, "token_variable": token_variable}}
    with patch.dict(os.environ, {SERVICES_VARIABLE: json.dumps(settings)}):
        return build_job(BATCHED_ENRICHMENT, parameters)


def play_points(url, events, **parameters):
    """Play all events and flush what waits."""
    harness = TestHarness(job_asking(url, **parameters))
    harness.batch(in_shards(events), NOW)
    harness.batch(None, NOW + timedelta(minutes=5))
    return harness
