"""A service that answers as it is told, call by call, and remembers what came."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


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
