"""Ports of servers that tests start, on loopback."""

import socket
import subprocess
import time
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
