"""A proxy before fake-gcs-server, for what that lacks: `python -m tests.google_proxy PORT`, with the server's port.

The client takes Google's XML interface, of which the server has no plain PUT, no conditions, no copies and no lists from a name
on. So the proxy makes a PUT an upload with a signed URL, checks `x-goog-if-generation-match` itself, one write after the other,
copies by the server's JSON interface, and leaves earlier names out of lists.
"""

import http.client
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit


def main(port: str) -> None:
    """Serve the proxy of a server until standard input ends, as it does with the process that holds its other end."""
    handler = type("_Proxy", (_Proxy,), {"port": int(port), "lock": threading.Lock()})
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    print(proxy.server_port, flush=True)
    sys.stdin.buffer.read()


class _Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    port: int
    lock: threading.Lock

    def do_GET(self) -> None:
        status, headers, body = self._ask(self.command, self.path)
        if after := parse_qs(urlsplit(self.path).query).get("start-after"):
            start = after[0].encode()
            body = re.sub(
                rb"<Contents><Key>(.*?)</Key>.*?</Contents>", lambda it: it[0] if it[1] > start else b"", body
            )
        self._answer(status, headers, body)

    do_HEAD = do_DELETE = do_GET

    def do_POST(self) -> None:
        self._answer(*self._ask("POST", self.path, self.rfile.read(int(self.headers["Content-Length"]))))

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        with self.lock:
            wanted = self.headers["x-goog-if-generation-match"]
            there = self._ask("HEAD", self.path)[1].get("X-Goog-Generation", "0")
            if wanted is not None and wanted != there:
                self._answer(412, {}, b"<Error><Code>PreconditionFailed</Code></Error>")
            elif source := self.headers["x-goog-copy-source"]:
                (bucket, name), (_, to) = (unquote(path).lstrip("/").split("/", 1) for path in (source, self.path))
                copy = f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}/rewriteTo/b/{bucket}/o/{quote(to, safe='')}"
                self._answer(*self._ask("POST", copy, b"{}"))
            else:
                status, headers, body = self._ask("PUT", f"{self.path}?X-Goog-Algorithm=none", content)
                now = self._ask("HEAD", self.path)[1]
                self._answer(status, headers | now, body)

    def _ask(self, method: str, path: str, content: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        kept = {
            name: value for name, value in self.headers.items() if name.lower() in ("host", "range", "content-type")
        }
        connection.request(method, path, content, kept)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), body

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        # Of a HEAD, the length is that of the object, and no body follows.
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    main(*sys.argv[1:])
