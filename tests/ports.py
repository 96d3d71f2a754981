"""Servers that tests start, on loopback, and their ports."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for_port(port: int, process: "subprocess.Popen[bytes]", log: Path, seconds: float) -> None:
    """Wait until a server listens.

    Raises:
        RuntimeError: it has ended, or does not come; with the end of its log.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")


@contextmanager
def listening(
    command: Sequence[str | Path], port: int, folder: Path, seconds: float = 60, **environment: str
) -> Iterator[None]:
    """A server that listens on a port, and is told to end with the block.

    Args:
        command: starts it.
        port: where it listens.
        folder: where it runs and its log is.
        seconds: how long it may take to come.
        environment: variables besides those of this process.
    """
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=folder, env=os.environ | environment, stdout=output, stderr=output)
    try:
        wait_for_port(port, server, log, seconds)
        yield
    finally:
        server.terminate()
        server.wait(60)
