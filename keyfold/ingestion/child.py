"""Do work on bytes that cannot be trusted in a child process, so that they cannot end the process that ingests.

Readers of binary formats abort, or raise any error, on some of the files in which a bit has flipped, and decoders of messages
overflow their stack. Whatever happens in the child, the parent learns of it as an error. A child does one work after the other
for as long as its parent lives, since it starts in half a second; threads that work at the same time have one each.

The parent sends a function and its arguments. The child answers with pairs: "value" and what the function yields, and finally
"end", or "error" and what it raised.
"""

import atexit
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from keyfold.errors import KeyfoldError, first_line

SILENCE = 600.0
"""Seconds without an answer after which a child is ended. Rows of a file arrive in chunks of some megabytes."""


class WorkFailedError(Exception):
    """The work raised an error that is the fault of its bytes; the message says which."""


class ChildEndedError(Exception):
    """The child ended, or did not answer. The kernel ends processes too, when memory runs out: try the work once more."""


_Value = TypeVar("_Value")


def in_child(
    work: Callable[..., Iterator[_Value]], *arguments: Any, memory: int | None = None, silence: float | None = None
) -> Iterator[_Value]:
    """Yield what a function yields in a child process.

    Args:
        work: a function of a module.
        arguments: its arguments.
        memory: bytes that the child may take for it, beside what it has; then the work raises `MemoryError`.
        silence: seconds without an answer after which the child is ended; `SILENCE` by default.

    Raises:
        WorkFailedError: the work raised an error other than these.
        ChildEndedError: the child ended, or did not answer in time.
        OSError: a disk or store fails.
        KeyfoldError: as the work raised it.
    """
    yield from _idle_child().do(work, arguments, memory, SILENCE if silence is None else silence)


class _Child:
    """A child process that does one work at a time."""

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

    def do(
        self, work: Callable[..., Iterator[Any]], arguments: tuple[Any, ...], memory: int | None, silence: float
    ) -> Iterator[Any]:
        """Yield what a function yields."""
        kind = "value"
        try:
            # A child that has ended is found out when its answer is awaited.
            with suppress(BrokenPipeError):
                self._pipe.send((work, arguments, memory))
            while kind == "value":
                kind, content = self._receive(silence)
                if kind == "value":
                    yield content
                elif kind == "error":
                    raise content
        finally:
            # Also if the caller leaves off: the rest of these answers must not be taken for those about the next work.
            if kind == "value":
                self.end()
            else:
                _idle.setdefault(os.getpid(), []).append(self)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _receive(self, silence: float) -> tuple[str, Any]:
        if not self._pipe.poll(silence):
            raise ChildEndedError(f"has not gone on for {silence:g} s")
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionResetError):
            code = self._process.wait()
            raise ChildEndedError(
                f"crashed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
            ) from None
        except Exception as error:
            raise WorkFailedError(first_line(error)) from None


_idle: dict[int, list[_Child]] = {}
"""The children of this process that do nothing now, by the process's id: a fork of it must not share them."""


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
    """End the children that do nothing now; the others end with this process."""
    for child in _idle.pop(os.getpid(), []):
        child.end()


def _serve(pipe: Connection) -> None:
    """Answer requests until the parent ends."""
    # Ctrl-C interrupts the parent, which then ends this process. A crash leaves no core file.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            work, arguments, memory = pipe.recv()
            _limit_memory(memory)
            for answer in _answers(work, arguments):
                pipe.send(answer)
            _limit_memory(None)


def _limit_memory(more: int | None) -> None:
    """Limit this process to so many more bytes than it has; None for no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = hard
    if more is not None:
        with open("/proc/self/statm") as file:
            limit = int(file.read().split()[0]) * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _answers(work: Callable[..., Iterator[Any]], arguments: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    try:
        for value in work(*arguments):
            yield "value", value
        yield "end", None
    # The work has sorted out those that are the fault of its bytes.
    except OSError as error:
        yield "error", OSError(str(error))
    except (KeyfoldError, WorkFailedError) as error:
        yield "error", error
    except Exception as error:
        yield "error", WorkFailedError(f"{type(error).__name__}: {first_line(error)}")


if __name__ == "__main__":
    # As the module that the parent and the work import: errors are found by their class.
    from keyfold.ingestion.child import _serve as serve

    serve(Connection(int(sys.argv[1])))
