"""What a refusal says to do, done as it is written."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.launcher import Command, Launcher

_JOB = re.compile(r"\bjob (totals|windows)\b")


def commands_of(message: str, command: Command) -> list[Command]:
    """The commands that an error names: those that it quotes, then the failed command with the option that it names."""
    quoted = [shlex.split(found) for found in re.findall(r"`keyfold ([^`]*)`", message)]
    told: list[Command] = [_without_home(one) for one in quoted]
    if "--full-refresh" in re.sub(r"`[^`]*`", "", message):
        job = _JOB.search(message)
        told.append(("run", job[1] if job else command[1], "--full-refresh"))
    return [(*one, "--settle", "0") if one[0] == "ingest" and "--settle" not in one else one for one in told]


def work_through(
    launcher: Launcher, home: Path, commands: tuple[Command, ...], *, hooks: Sequence[str] = (), rounds: int = 6
) -> list[str]:
    """Run commands, and where one is refused do what it says, then go on with it; gives what was refused.

    Args:
        hooks: as a run takes them, for all of these.
        rounds: how often something may be refused.

    Raises:
        AssertionError: one says nothing that can be done, fails with a traceback, or is refused again and again.
    """
    refusals: list[str] = []
    left = list(commands)
    while left:
        code, run = launcher.run(home, *left, hooks=hooks)
        left = left[run.done :]
        if code == 0:
            break
        said = run.said
        assert code == 1, f"{left[0]} ended with {code}: {said}"
        assert "Traceback" not in said, said
        assert "error: " in said, f"{left[0]} failed without a word of why: {said}"
        message = said[said.index("error: ") :]
        refusals.append(message)
        assert len(refusals) <= rounds, f"refused again and again: {refusals}"
        remedies = commands_of(message, left[0])
        assert remedies, f"no remedy in: {message}"
        # One that is refused names another one, which is the next round's.
        launcher.run(home, *remedies, hooks=hooks)
    return refusals


def _without_home(command: list[str]) -> Command:
    if "--home" in command:
        at = command.index("--home")
        return tuple(command[:at] + command[at + 2 :])
    return tuple(command)
