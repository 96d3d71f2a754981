"""A small enrichment service that speaks the protocol, for demos and tests: it works, and fails on demand.

An event with a position is answered with its geohash, any other with an echo; both with a checksum of what came. With
one seed the same events are rejected, and the same tries fail, whatever the order or number of the calls in flight.

The standard library's threading server carries it: it needs no package, and starts and ends within a test. It holds
back what could hurt: long bodies, too many events, idle connections, and the answers that it remembers.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Self

from keyfold.errors import KeyfoldError
from spark_jobs.jobs.batched_enrichment.protocol import KEY_HEADER
from spark_jobs.simulation.enrichment_service.backend import EnrichmentBackend, Refused, ServiceSettings, error_json

MAX_BODY_BYTES = 32 * 2**20
_IDLE_SECONDS = 60
_DRAIN_SECONDS = 10


class DemoService:
    """The service on its own threads, from `with` to its end.

    Attributes:
        url: where events are POSTed to.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._work = EnrichmentBackend(settings)
        try:
            self._server = _Server((settings.host, settings.port), _Handler)
        except (OSError, OverflowError) as error:
            raise KeyfoldError(
                f"cannot listen on {settings.host}:{settings.port} ({error}); give another --port, or 0 for a free one"
            ) from None
        self._server.work = self._work
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self.url = f"http://{settings.host}:{self._server.server_address[1]}/enrich"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._work.draining = True
        self._server.shutdown()
        late = time.monotonic() + _DRAIN_SECONDS
        while self._work.unanswered and time.monotonic() < late:
            time.sleep(0.01)
        self._server.server_close()

    def stats(self) -> dict[str, int]:
        """What `GET /stats` answers: calls, repeated_calls, events worked on, and most calls in flight at a time."""
        return self._work.stats()


class _Server(ThreadingHTTPServer):
    work: EnrichmentBackend
    request_queue_size = 128

    def server_bind(self) -> None:
        # HTTPServer's asks the network for this machine's name, which may take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: what can fail here is a connection that the caller has left."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    wbufsize = 2**16
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self._path() == "/stats":
            self._send(200, json.dumps(self.server.work.stats()))
        else:
            self._send(404, error_json(404, "there are POST /enrich and GET /stats"))

    def do_POST(self) -> None:
        if self._path() != "/enrich":
            self.close_connection = True
            self._send(404, error_json(404, "there are POST /enrich and GET /stats"))
            return
        work = self.server.work
        with work.call():
            try:
                key, token = self.headers.get(KEY_HEADER), self.headers.get("Authorization", "")
                status, text = 200, work.answer(key, token, self._body())
            except Refused as error:
                status, text = error.status, error_json(error.status, str(error))
            except Exception as error:
                status, text = 500, error_json(500, type(error).__name__)
            self._send(status, text)

    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            self.close_connection = True
            raise Refused(411, "the call must say its Content-Length")
        if len(length) > 12 or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            # Read some of it away: of a body left unread, the caller's system drops the answer too.
            for _ in range(32):
                self.rfile.read(min(2**20, int(length[:12])))
            raise Refused(413, f"the body has more than {MAX_BODY_BYTES:,} bytes")
        return self.rfile.read(int(length))

    def _send(self, status: int, text: str) -> None:
        content = text.encode("utf-8", "backslashreplace")
        self.close_connection = self.close_connection or self.server.work.draining
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: calls carry events, which are nobody's business but the caller's."""
