"""Run servers as long as the process that started them lives, and leave none of their processes behind.

Two processes supervise. The first receives the signals and waits. Its child, the guardian, is the parent of all servers, and
holds the reading end of a pipe whose writing end only the first has. When the first ends in any way, by SIGKILL too, the pipe
closes, and the guardian ends the servers: it asks them to stop, and kills the rest after some seconds.

On Linux, both adopt orphans (PR_SET_CHILD_SUBREAPER). So children of a dead server are found, even in their own session or
group; and if the guardian is killed, the first process ends the servers. macOS has no such mechanism: processes that were
orphaned earlier are not found there.
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
"""How long servers may take to stop before they are killed."""

_STEP = 0.1
_PATIENCE = 5.0
"""Seconds to wait for killed processes; later, they are stuck in the kernel."""

_SET_DEATH_SIGNAL, _ADOPT_ORPHANS = 1, 36  # of Linux' <sys/prctl.h>
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class Server:
    """A process to run.

    Attributes:
        name: its name, for people.
        command: the command with its arguments.
        is_needed: whether all servers end when this one ends unexpectedly.
        restarts: how often it is restarted when it ends unexpectedly.
        after: a file, such as a socket, that must exist before this server and those after it start.
        environment: variables to add to this process's own.
    """

    name: str
    command: Sequence[str]
    is_needed: bool = True
    restarts: int = 0
    after: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


Report = Callable[[Server, int, str], None]
"""Receives a server that has ended unexpectedly, its exit code (negative for a signal), and what was done about it."""


def supervise(
    servers: Sequence[Server],
    *,
    grace: float = GRACE_SECONDS,
    at_end: Callable[[], None] = lambda: None,
    report: Report = lambda *_: None,
) -> int:
    """Run servers until a needed one ends, or until this process is stopped or dies.

    Returns when none of their processes is left. The calling process must have one thread; its signal handlers are replaced.

    Args:
        servers: started in this order, each when the file that it waits for exists.
        grace: seconds that servers get to stop before they are killed.
        at_end: called in another process when all servers have ended, also if this process was killed.
        report: called in another process when a server has ended unexpectedly, with `restarted`, `left` or `ended all`;
            the last is reported before the others are asked to end.

    Returns:
        0 if this process was stopped, 1 if a needed server ended unexpectedly.
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
            # Not sys.exit, which would run the first process's cleanup in this one.
            os._exit(code)
    os.close(reading)
    _close_on_stop_signal(writing)
    _, status = os.waitpid(guardian, 0)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    _say("the guardian of the servers was killed: ending all servers")
    _end(set(), grace)
    at_end()
    return 1


def _close_on_stop_signal(writing: int) -> None:
    """Close the pipe on every signal that asks this process to stop, which tells the guardian."""
    open_ends = [writing]

    def close(*_: object) -> None:
        if open_ends:
            os.close(open_ends.pop())

    for number in _STOP_SIGNALS:
        # A shell's background process ignores interrupts, and `nohup` ignores hang-ups: keep that.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, close)


def _guard(servers: Sequence[Server], life: int, grace: float, report: Report) -> int:
    os.setsid()  # a terminal's Ctrl-C and hang-up must reach only the first process
    _adopt_orphans()
    for number in _STOP_SIGNALS:
        # Only the closed pipe ends the guardian. A handler instead of SIG_IGN, which servers would inherit.
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
                done, note = "restarted", ": restarting it"
            elif server.is_needed:
                code, done, note = 1, "ended all", ": ending all servers"
            else:
                done, note = "left", ""
            _say(f"{server.name} has ended{note}")
            with suppress(Exception):  # a failed report, for example on a full disk, must not end the other servers
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
    """Ask processes to stop, then kill all their and this process's descendants; return when none is left."""
    known = _descendants()
    for process in asked or known:
        # Not the whole group: a server stops its own children in order.
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
    _say(f"processes {', '.join(map(str, sorted(known)))} were killed and have not ended")


def _reaped() -> dict[int, int]:
    """Return the exit codes of children that have ended, adopted ones too; negative for signals."""
    ended = dict[int, int]()
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = os.waitstatus_to_exitcode(found[1])
    return ended


def _descendants(there: Mapping[int, int] | None = None) -> set[int]:
    """Return the children of this process, and their children."""
    parents = _alive() if there is None else there
    found, more = set[int](), {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in more} - found:
        found |= more
    return found


def _alive() -> dict[int, int]:
    """Return the processes of this machine with their parents, without zombies."""
    if Path("/proc/self/stat").exists():
        rows = list[list[str]]()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                stat = Path("/proc", name, "stat").read_text(encoding="utf-8", errors="replace")
                # The name of the program, in brackets, may hold blanks and brackets.
                state, parent, *_ = stat.rpartition(")")[2].split()
                rows.append([name, parent, state])
    else:
        listing = subprocess.Popen(["ps", "-A", "-o", "pid=,ppid=,stat="], stdout=subprocess.PIPE, text=True)
        rows = [line.split() for line in listing.communicate()[0].splitlines()]
        rows = [row for row in rows if row[0] != str(listing.pid)]
    return {int(process): int(parent) for process, parent, state in rows if not state.startswith(("Z", "X"))}


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def _adopt_orphans() -> None:
    _prctl(_ADOPT_ORPHANS, 1)


def _end_with_parent() -> None:
    # If both supervising processes are killed at once, at least the servers themselves end.
    _prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)


# Loaded once, before any fork.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _prctl(option: int, value: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(option, value, 0, 0, 0)


def _say(text: str) -> None:
    # The terminal may be closed, which may be why the servers end.
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
