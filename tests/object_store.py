"""An object store for tests, on loopback: moto's S3 in a process of its own, and buckets that no other test has.

`python -m tests.object_store` is the server: it says its port, and ends with whoever started it, however that one ends.
"""

import io
import os
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).parent.parent

REGION = "us-east-1"

ENVIRONMENT = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ALLOW_HTTP")


@dataclass(frozen=True)
class ObjectStore:
    """A store that runs.

    Attributes:
        endpoint: its URL.
        pid: its process's; a test may stop it for a while (SIGSTOP), and must let it go on.
    """

    endpoint: str
    pid: int

    def new_bucket(self) -> str:
        """Make a bucket of a name that none has."""
        bucket = f"b-{uuid.uuid4().hex[:12]}"
        with urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{bucket}", method="PUT"), timeout=30):  # noqa: S310
            return bucket

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """What a process must have in its environment to reach the store, or a proxy before it."""
        return dict(
            zip(ENVIRONMENT, (endpoint or self.endpoint, "planted-key", "planted-secret", REGION, "true"), strict=True)
        )


@contextmanager
def running_store() -> Iterator[ObjectStore]:
    """Start a store, and stop it; what it held is gone."""
    with process_with_port([sys.executable, "-m", "tests.object_store"]) as (pid, port):
        yield ObjectStore(f"http://127.0.0.1:{port}", pid)


@contextmanager
def process_with_port(command: list[str]) -> Iterator[tuple[int, int]]:
    """Start a process that says its port and ends with its standard input; gives its id and the port, and kills it."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=_REPOSITORY
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, f"it did not start: run `{' '.join(command)}` to see why"
        yield process.pid, int(port)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def main() -> int:
    """Serve until standard input ends, as it does with the process that holds its other end."""
    from cheroot import wsgi  # noqa: PLC0415 - not for those who only start this
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415

    server = wsgi.Server(("127.0.0.1", 0), _OneAtATime(DomainDispatcherApplication(create_backend_app)), numthreads=32)
    server.prepare()
    # Said before it serves: connections wait from now on.
    print(server.bind_addr[1], flush=True)
    threading.Thread(target=server.serve, daemon=True).start()
    sys.stdin.buffer.read()
    os._exit(0)


class _OneAtATime:
    """One request after the other: moto looks whether a write's condition holds, and writes, in two steps."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: MutableMapping[str, Any], start_response: Any) -> Iterable[bytes]:
        # Before its turn: a client that sends slowly must not keep the others waiting.
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read())
        with self._lock:
            answer = self._application(environ, start_response)
            try:
                return [b"".join(answer)]
            finally:
                if hasattr(answer, "close"):
                    answer.close()


if __name__ == "__main__":
    sys.exit(main())
