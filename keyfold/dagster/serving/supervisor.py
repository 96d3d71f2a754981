"""Keeps servers for as long as the process that started them lives, and leaves none of their processes behind.

Two processes watch. The one that was started takes the signals and waits; its child, the guardian, is the parent of all
servers and holds the reading end of a pipe whose writing end the first alone has. However the first ends, by SIGKILL
too, the pipe closes, and the guardian ends the servers: asks them to, and after some seconds kills all that is left.

On Linux both adopt orphans (PR_SET_CHILD_SUBREAPER): a process that was started by a server that has died, in a session
or group of its own, is still found, and should the guardian be killed, the first ends the servers. macOS has no such
thing: there what was orphaned before the end began is not found.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

GRACE_SECONDS = 8.0
"""How long servers may take to end by themselves."""

_STEP = 0.1
_PATIENCE = 5.0
"""Seconds in which killed processes are gone, or stuck in the kernel, where nobody can help."""

_SET_DEATH_SIGNAL, _ADOPT_ORPHANS = 1, 36  # of Linux' <sys/prctl.h>
_TOLD_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class Server:
    """A process to keep.

    Attributes:
        name: for people.
        command: and its arguments.
        is_needed: whether all others end when it ends by itself.
        restarts: how often it is started again when it ends by itself, before that counts.
        after: a file, such as a socket, that must be there before it and those after it are started.
        environment: variables besides this process's own.
    """

    name: str
    command: Sequence[str]
    is_needed: bool = True
    restarts: int = 0
    after: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


Report = Callable[[Server, int, str], None]
"""Takes a server that has ended by itself, its exit code (negative for a signal), and what was done, in a word or two."""


def supervise(
    servers: Sequence[Server],
    *,
    grace: float = GRACE_SECONDS,
    at_end: Callable[[], None] = lambda: None,
    report: Report = lambda *_: None,
) -> int:
    """Run servers until one that is needed ends, or this process is told to stop, or dies.

    Returns when no process of theirs is left. Call it from a process of one thread, which it takes the signals of.

    Args:
        servers: started in this order, each once the file that it waits for is there.
        grace: seconds in which they may end by themselves; what is left is killed.
        at_end: called when all are gone, in another process, where this one was killed too.
        report: called, in another process, when a server has ended by itself; what was done is `restarted`, `left` or
            `ended all`, which is reported before the others are asked to end.

    Returns:
        0 where it was told to stop, 1 where a server that is needed ended by itself.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    _adopt_orphans()
    guardian = os.fork()
    if guardian == 0:
        os.close(writing)
        code = 1
        try:
            code = _guard(servers, reading, grace, report)
            at_end()
        finally:
            # Not sys.exit: what the first process was in the middle of is its own.
            os._exit(code)
    os.close(reading)
    _close_when_told(writing)
    _, status = os.waitpid(guardian, 0)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    _say("the guardian of the servers was killed: they end")
    _end(set(), grace)
    at_end()
    return 1


def _close_when_told(writing: int) -> None:
    """Let the guardian know of every signal that asks for the end."""
    told = [writing]

    def close(*_: object) -> None:
        if told:
            os.close(told.pop())

    for number in _TOLD_TO_STOP:
        # A shell that starts us in the background has us ignore interrupts, `nohup` hang-ups: so be it.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, close)


def _guard(servers: Sequence[Server], life: int, grace: float, report: Report) -> int:
    os.setsid()  # a terminal's Ctrl-C and hang-up go to the first process alone
    _adopt_orphans()
    for number in _TOLD_TO_STOP:
        # Nothing but the pipe's end ends it. A handler, since servers would inherit that a signal is ignored.
        signal.signal(number, lambda *_: None)
    waiting, running = list(servers), dict[int, tuple[Server, subprocess.Popen[bytes]]]()
    restarts = {server.name: server.restarts for server in servers}
    code = 0
    while not code and not select.select([life], [], [], _STEP)[0]:
        while waiting and (waiting[0].after is None or waiting[0].after.exists()):
            process = _start(waiting[0])
            running[process.pid] = waiting.pop(0), process
        for process, exit_code in _reaped().items():
            if process not in running:
                continue
            server, _ = running.pop(process)
            if restarts[server.name]:
                restarts[server.name] -= 1
                again = _start(server)
                running[again.pid] = server, again
                done, said = "restarted", ": it is started again"
            elif server.is_needed:
                code, done, said = 1, "ended all", ": so does everything"
            else:
                done, said = "left", ""
            _say(f"{server.name} has ended{said}")
            with suppress(Exception):  # what cannot be reported, on a full disk perhaps, does not end the others
                report(server, exit_code, done)
    _end(set(running), grace)
    for _, process in running.values():
        process.returncode = 0  # it was waited for
    return code


def _start(server: Server) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        server.command,
        env={**os.environ, **server.environment},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - the guardian has one thread
    )


def _end(asked: set[int], grace: float) -> None:
    """Ask processes to end, then kill all that have come of them and of this process; returns when none is left."""
    known = _descendants()
    for process in asked or known:
        # Not its group: a server that is asked ends its own children in order.
        _signal(process, signal.SIGTERM)
    asked_at = time.monotonic()
    while time.monotonic() < asked_at + grace + _PATIENCE:
        _reaped()
        there = _alive()
        known = {process for process in known | _descendants(there) if process in there}
        if not known:
            return
        if time.monotonic() >= asked_at + grace:
            for process in known:
                _signal(process, signal.SIGKILL)
        time.sleep(_STEP)
    _say(f"processes {', '.join(map(str, sorted(known)))} do not end, killed as they are")


def _reaped() -> dict[int, int]:
    """The children that have ended, adopted ones too, with their exit codes, negative for signals."""
    ended = dict[int, int]()
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = os.waitstatus_to_exitcode(found[1])
    return ended


def _descendants(there: Mapping[int, int] | None = None) -> set[int]:
    """All processes that come from this one, its children's children too."""
    parents = _alive() if there is None else there
    found, more = set[int](), {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in more} - found:
        found |= more
    return found


def _alive() -> dict[int, int]:
    """The processes of this machine with their parents, without those that have ended and are yet to be waited for."""
    if Path("/proc/self/stat").exists():
        rows = list[list[str]]()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                stat = Path("/proc", name, "stat").read_text(encoding="utf-8", errors="replace")
                # The name of the program, in brackets, may hold blanks and brackets.
                state, parent, *_ = stat.rpartition(")")[2].split()
                rows.append([name, parent, state])
    else:
        told = subprocess.Popen(["ps", "-A", "-o", "pid=,ppid=,stat="], stdout=subprocess.PIPE, text=True)
        rows = [line.split() for line in told.communicate()[0].splitlines()]
        rows = [row for row in rows if row[0] != str(told.pid)]
    return {int(process): int(parent) for process, parent, state in rows if not state.startswith(("Z", "X"))}


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def _adopt_orphans() -> None:
    _prctl(_ADOPT_ORPHANS, 1)


def _end_with_parent() -> None:
    # For the day on which both who watch are killed at once; it does not reach further than the servers themselves.
    _prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)


# Loaded once, before any fork.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _prctl(option: int, value: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(option, value, 0, 0, 0)


def _say(text: str) -> None:
    # The terminal may be gone: that is why we end.
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
