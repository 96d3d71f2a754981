"""Servers on loopback besides the pages: of another site, and one that hears who asks it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving(status: int, content: bytes = b"") -> Iterator[tuple[int, list[str]]]:
    """Give everybody one answer; yields the port, and the paths that were asked for so far."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            if content:
                self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, asked
        server.shutdown()


@dataclass
class Beacon:
    """A server that hears who asks it.

    Attributes:
        url: its address.
        asked: the paths that somebody asked for.
    """

    url: str
    asked: list[str]

    def markup(self, place: str) -> list[str]:
        """Values that would ask it, each in a way of its own, if they were taken for markup."""
        return [
            f"![x]({self.url}/{place}-markdown.png)",
            f"<img src={self.url}/{place}-html.png onerror=alert(1)>",
            f"<script src={self.url}/{place}.js></script>",
        ]
