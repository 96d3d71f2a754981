"""Serve the protocol of `batched_enrichment` for demos and tests, with failures on demand: `keyfold demo-service`.

An event with a position is enriched with its tile, a hundredth of a degree wide, and any other with a copy of itself; both with a
checksum. The same tries fail, whatever the order and concurrency of calls.
"""

import json
import sys
import threading
import time
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Annotated, Any, Self

import typer

from keyfold import KeyfoldError
from keyfold.cli import report, stop_on_signal
from spark_jobs.jobs.batched_enrichment.protocol import KEY_HEADER, MAX_EVENTS

MAX_BODY_BYTES = 32 * 2**20

_PATHS = "there are POST /enrich and GET /stats"


class _RefusedError(Exception):
    """A whole call fails with this HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class _Known:
    """The state of an idempotency key: the digest of its body, the number of tries, and the answer if there is one."""

    body_digest: bytes
    tries: int = 0
    answer: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class DemoService:
    """The service, which runs on its own threads within `with`; port 0 is a free one.

    Args:
        failure_rate: share of calls, and of events in the other calls, that fail with 503 and can be retried.
        latency: minimum duration of a call, in seconds.
        token: bearer token of calls; if empty, calls need no token.

    Attributes:
        url: the URL to which events are POSTed.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, *, failure_rate: float = 0.0, latency: float = 0.0, token: str = "",
    ) -> None:  # fmt: skip
        self._failure_rate, self._latency, self._token = failure_rate, latency, token
        self._lock = threading.Lock()
        self._counts = {"calls": 0, "repeated_calls": 0, "events": 0, "in_flight_most": 0}
        self._in_flight = 0
        self._known: dict[str, _Known] = {}
        try:
            self._server = _Server((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise KeyfoldError(
                f"cannot listen on {host}:{port} ({error}); give another --port, or 0 for a free one"
            ) from None
        self._server.service = self
        self.url = f"http://{host}:{self._server.server_address[1]}/enrich"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def stats(self) -> dict[str, int]:
        """Return the answer to `GET /stats`: calls, repeated calls, processed events, and most calls in flight at a time."""
        with self._lock:
            return dict(self._counts)

    def answer(self, key: str | None, token: str, body: bytes) -> str:
        """Return the answer to a call as JSON.

        Raises:
            _RefusedError: the whole call fails.
        """
        with self._lock:
            self._counts["calls"] += 1
            self._in_flight += 1
            self._counts["in_flight_most"] = max(self._counts["in_flight_most"], self._in_flight)
        try:
            if self._token and not compare_digest(token.encode(), f"Bearer {self._token}".encode()):
                raise _RefusedError(401, "the bearer token is missing or wrong")
            events, known = _events(body), self._recall(key, sha256(body).digest())
            # One call per key at a time: a repeated call waits for the answer of the first.
            with known.lock:
                if known.answer is not None:
                    self._count("repeated_calls")
                    return known.answer
                known.tries += 1
                known.answer = self._work(key or f"call {self._counts['calls']}", known.tries, events)
                return known.answer
        finally:
            with self._lock:
                self._in_flight -= 1

    def _count(self, name: str, more: int = 1) -> None:
        with self._lock:
            self._counts[name] += more

    def _recall(self, key: str | None, digest: bytes) -> _Known:
        """Return the state of an idempotency key; a new one if the key is unknown."""
        if key is None:
            return _Known(digest)
        with self._lock:
            known = self._known.setdefault(key, _Known(digest))
            if known.body_digest != digest:
                raise _RefusedError(422, f"this {KEY_HEADER} came before with other events")
            return known

    def _work(self, key: str, tries: int, events: list[Any]) -> str:
        """Enrich the events, or simulate a failure."""
        time.sleep(self._latency)
        if _share("call", key, tries) < self._failure_rate:
            raise _RefusedError(503, "failed on demand")
        fails = [_share("event", key, place) < self._failure_rate for place in range(len(events))]
        results = [
            {"status": 503, "error": "failed on demand"} if fail else self._result(event)
            for fail, event in zip(fails, events, strict=True)
        ]
        self._count("events", len(events) - sum(fails))
        return _json({"results": results})

    def _result(self, event: Any) -> dict[str, Any]:
        checksum = sha256(_json(event).encode("utf-8", "backslashreplace")).hexdigest()
        if not isinstance(event, dict):
            return {"status": 422, "error": "an event must be an object"}
        place = event.get("latitude"), event.get("longitude")
        if place == (None, None):
            return {"status": 200, "enrichment": {"checksum": checksum, "echo": event}}
        if not all(
            isinstance(one, int | float) and abs(one) <= most for one, most in zip(place, (90, 180), strict=True)
        ):
            return {"status": 422, "error": "latitude must be -90 to 90 degrees and longitude -180 to 180"}
        return {"status": 200, "enrichment": {"checksum": checksum, "tile": f"{place[0]:.2f},{place[1]:.2f}"}}


class _Server(ThreadingHTTPServer):
    service: DemoService
    request_queue_size = 128

    def server_bind(self) -> None:
        # HTTPServer.server_bind looks up this machine's name in the network, which may take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: errors here are connections that the caller has closed."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    timeout = 60
    wbufsize = 2**16
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        found = self.path == "/stats"
        self._send(200 if found else 404, _json(self.server.service.stats() if found else {"error": _PATHS}))

    def do_POST(self) -> None:
        key, token = self.headers.get(KEY_HEADER), self.headers.get("Authorization", "")
        try:
            self._send(200, self.server.service.answer(key, token, self._body()))
        except _RefusedError as error:
            self._send(error.status, _json({"status": error.status, "error": str(error)}))

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if self.path == "/enrich" and length.isdecimal() and int(length) <= MAX_BODY_BYTES:
            return self.rfile.read(int(length))
        # What follows in the connection would be the unread body.
        self.close_connection = True
        if self.path != "/enrich":
            raise _RefusedError(404, _PATHS)
        raise _RefusedError(413, f"the call must say its Content-Length, of at most {MAX_BODY_BYTES:,} bytes")

    def _send(self, status: int, text: str) -> None:
        content = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, since calls contain events, which may be private."""


def _share(*words: object) -> float:
    """Return a number in [0, 1) that depends only on the words."""
    return int.from_bytes(sha256(repr(words).encode()).digest()[:6], "big") / 2**48


def _events(body: bytes) -> list[Any]:
    try:
        events = json.loads(body)["events"]
    except (ValueError, RecursionError, TypeError, KeyError):
        events = None
    if not isinstance(events, list) or len(events) > MAX_EVENTS:
        raise _RefusedError(400, f"the body must be a JSON object with a list of at most {MAX_EVENTS:,} events")
    return events


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def demo_service(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")] = 8077,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    failure_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of calls, and of events, that fail and may be tried again.")
    ] = 0,
) -> None:
    """Serve the demo service that batched_enrichment calls, until interrupted; then print its statistics."""
    stop = stop_on_signal()
    with DemoService(host, port, failure_rate=failure_rate) as service:
        report({"service": service.url}, f"{service.url} accepts events; Ctrl-C ends it")
        sys.stdout.flush()
        stop.wait()
    stats = service.stats()
    report(stats, ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in stats.items()))
