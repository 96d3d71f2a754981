"""Parse files that cannot be trusted in a child process, so that a corrupt file cannot end the process that ingests.

Readers of binary formats abort, or raise any error, on some of the files in which a bit has flipped. Whatever happens in the
child makes the file unreadable. A child takes one file after the other for as long as its parent lives, since it starts in half
a second; threads that parse at the same time have one each.

The parent sends the arguments of `parse_file`. The child answers with pairs: "rows" and `ValidatedRows`, and at last "end",
"unreadable" and the reason, or "fault" and an error that is not the file's fault.
"""

import atexit
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from keyfold.errors import KeyfoldError, first_line
from keyfold.ingestion.parsing.inputs import parse_file
from keyfold.ingestion.parsing.rows import ValidatedRows
from keyfold.ingestion.parsing.text import UnreadableFileError, file_type
from keyfold.storage.place import Place
from keyfold.stream import Stream

SILENCE = 600.0
"""Seconds without an answer after which a file is unreadable. Rows arrive in chunks of some megabytes."""


class ReaderEndedError(UnreadableFileError):
    """The child ended, or did not answer. The kernel ends processes too, when memory runs out: try the file once more."""


def parse_file_safely(
    stream: Stream,
    path: Place,
    arrived: datetime,
    landing: Place,
    oldest: datetime | None,
) -> Iterator[ValidatedRows]:
    """Parse a file as `parse_file` does; a binary file (Parquet) in a child process.

    Compressed text needs none: zlib and the checksum of gzip find what has flipped.

    Raises:
        UnreadableFileError: the file is rejected as a whole; rows yielded before do not count.
        OSError: a disk or store fails.
    """
    given = (stream, path, arrived, landing, oldest)
    yield from _idle_child().parse(given) if file_type(path).format == "parquet" else parse_file(*given)


class _Child:
    """A child process that parses one file at a time."""

    def __init__(self) -> None:
        self._pipe, other = Pipe()
        self._environment = dict(os.environ)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(other.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # an abort dumps its stack, which may hold values
            env={**self._environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=[other.fileno()],
        )
        # The child has the only other end: so its end, and that of this process, end what the other one waits for.
        other.close()

    @property
    def is_usable(self) -> bool:
        """Whether it runs, with the variables of this process as they are now: the way to a store is among them."""
        return self._process.poll() is None and self._environment == dict(os.environ)

    def parse(self, given: tuple[Any, ...]) -> Iterator[ValidatedRows]:
        """Yield a file's rows."""
        kind = "rows"
        try:
            # A child that has ended is found out when its answer is awaited.
            with suppress(BrokenPipeError):
                self._pipe.send(given)
            while kind == "rows":
                kind, content = self._receive()
                if kind == "rows":
                    yield content
                elif kind == "unreadable":
                    raise UnreadableFileError(content)
                elif kind == "fault":
                    raise content
        finally:
            # Also if the caller leaves off: the rest of these answers must not be taken for those about the next file.
            if kind == "rows":
                self.end()
            else:
                _idle.setdefault(os.getpid(), []).append(self)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _receive(self) -> tuple[str, Any]:
        if not self._pipe.poll(SILENCE):
            raise ReaderEndedError(f"the file cannot be read: its reader has not gone on for {SILENCE:g} s")
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionResetError):
            code = self._process.wait()
            how = f"crashed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
            raise ReaderEndedError(f"the file cannot be read: its reader {how}") from None
        except Exception as error:
            raise UnreadableFileError(f"the file cannot be read: {first_line(error)}") from None


_idle: dict[int, list[_Child]] = {}
"""The children of this process that parse nothing now, by the process's id: a fork of it must not share them."""


def _idle_child() -> _Child:
    idle = _idle.get(os.getpid(), [])
    # Another thread may take one at the same time.
    with suppress(IndexError):
        while True:
            if (child := idle.pop()).is_usable:
                return child
            child.end()
    return _Child()


@atexit.register
def end_children() -> None:
    """End the children that parse nothing now; the others end with this process."""
    for child in _idle.pop(os.getpid(), []):
        child.end()


def _serve(pipe: Connection) -> None:
    """Answer requests until the parent ends."""
    # Ctrl-C interrupts the parent, which then ends this process. A crash leaves no core file.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            for answer in _answers(pipe.recv()):
                pipe.send(answer)


def _answers(given: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    try:
        for rows in parse_file(*given):
            yield "rows", rows
        yield "end", None
    except UnreadableFileError as error:
        yield "unreadable", str(error)
    # `parse_file` has sorted out those that are the file's fault.
    except OSError as error:
        yield "fault", OSError(str(error))
    except KeyfoldError as error:
        yield "fault", error
    except Exception as error:
        yield "unreadable", f"the file cannot be read: {type(error).__name__}: {first_line(error)}"


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
