"""Commands of `keyfold` in processes of their own, which are there in milliseconds, and what is made to happen to them."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("system_calls.c")

KILLED, COUNTED = -1, 0
"""In place of an errno: the process dies at that write; writes are only counted."""

Command = Sequence[str]


def why_not() -> str:
    """Why nothing can come between a process and the system here; empty where it can."""
    if not sys.platform.startswith("linux"):
        return "faults of the disk and of the clock are made by LD_PRELOAD, which is Linux's"
    return "" if _compiler() else "no C compiler (cc) is here, which faults of the disk and of the clock are made with"


def build(folder: Path) -> Path:
    """Compile what fails calls of the system."""
    library = folder / "system_calls.so"
    command = [_compiler(), "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


@dataclass(frozen=True)
class Writes:
    """What becomes of writes below a folder: of the number-th, and of all after it where that is for good.

    Attributes:
        below: the folder.
        failure: an errno, `KILLED` or `COUNTED`.
        number: from 1.
        for_good: as a full disk; else one write alone fails.
    """

    below: Path
    failure: int
    number: int = 0
    for_good: bool = False


@dataclass
class Run:
    """A process that has begun.

    Attributes:
        pid: its number, and its session's.
        log: where what it says goes.
    """

    pid: int
    log: Path
    _launcher: "Launcher"

    def wait(self) -> int:
        """Its exit code, negative where a signal ended it."""
        return self._launcher.ask({"wait": self.pid})["code"]

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    @property
    def said(self) -> str:
        """What it has said, in one line."""
        return " ".join(self.log.read_text(errors="replace").split())

    @property
    def done(self) -> int:
        """How many of its commands ended well."""
        told = self.log.with_suffix(".done")
        return int(told.read_text()) if told.exists() else 0

    @property
    def tried(self) -> list[int]:
        """The exit codes of the commands before, which may fail."""
        told = self.log.with_suffix(".tried")
        return json.loads(told.read_text()) if told.exists() else []

    @property
    def writes(self) -> int:
        """How many writes below the folder came; of one that was killed it is not known."""
        return int(self.log.with_suffix(".writes").read_text())


@dataclass
class Launcher:
    """Starts runs; close it at the end.

    Args:
        library: what `build` gave.
        folder: for logs.
        environment: variables of all of them; without others, runs go without Spark.
    """

    library: Path
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    _count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.local_keyfold"],
            cwd=REPOSITORY,
            env={
                **os.environ,
                "LD_PRELOAD": str(self.library),
                "POLARS_MAX_THREADS": "1",
                "COLUMNS": "2000",
                "KEYFOLD_RUNNER": "local",
                **self.environment,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "launcher.log").open("w"),
            text=True,
        )

    def start(
        self,
        home: Path | str,
        *commands: Command,
        attempts: Sequence[Command] = (),
        writes: Writes | None = None,
        seconds_ahead: int = 0,
        hooks: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Run:
        """Begin commands on a home, one after the other until one fails.

        Args:
            home: the lakehouse.
            commands: of `keyfold`, and `["maintain"]`, which sees to all tables.
            attempts: commands before them, which may fail.
            writes: what becomes of its writes.
            seconds_ahead: by so much its clock is ahead.
            hooks: functions, `module:name`, that are called in the process before.
            environment: variables.
        """
        self._count += 1
        log = self.folder / f"{self._count}.log"
        order = {
            "home": str(home),
            "attempts": [list(command) for command in attempts],
            "commands": [list(command) for command in commands],
            "log": str(log),
            "writes": writes and {**vars(writes), "below": str(writes.below)},
            "seconds_ahead": seconds_ahead,
            "hooks": list(hooks),
            "environment": dict(environment or {}),
        }
        return Run(self.ask(order)["pid"], log, self)

    def run(self, home: Path | str, *commands: Command, **more) -> tuple[int, Run]:
        """Begin commands, and wait for their end; gives the exit code."""
        run = self.start(home, *commands, **more)
        return run.wait(), run

    def ask(self, order: dict) -> dict:
        """Give an order, and wait for the answer."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the process that starts runs has ended: {(self.folder / 'launcher.log').read_text()[-3000:]}"
        return json.loads(answer)

    def close(self) -> None:
        """End it, and what of its runs is left."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


def _compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")
