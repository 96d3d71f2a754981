"""Everything that writes to a lakehouse, each a scene: what has happened before, what a fault comes to, and what ends it well."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.chaos.launcher import Command, Launcher, Run
from tests.chaos.story import END, INGEST, TO_THE_END, TOTALS, WINDOWS, WORK, Homes, expected, found
from tests.chaos.tally import Rows, Tally

FULL_REFRESH = tuple((*run, "--full-refresh") for run in (TOTALS, WINDOWS))


@dataclass(frozen=True)
class Scene:
    """Commands that a fault comes to.

    Attributes:
        commands: those.
        on: the home before, `fresh` or `running`.
        before: commands that have run on it.
        after: what a person does once the same commands were called again; then all that is left to do.
        erased: whose clicks are gone in the end, all or some.
        moved: how many of them are in quarantine then.
    """

    commands: tuple[Command, ...]
    on: Literal["fresh", "running"] = "running"
    before: tuple[Command, ...] = ()
    after: tuple[Command, ...] = ()
    erased: str = ""
    moved: int = 0

    def home(self, homes: Homes) -> Path:
        """A home of its own in which all before has happened."""
        return homes.copy(homes.after(getattr(homes, self.on), *self.before))

    def mend(self, launcher: Launcher, home: Path) -> Run:
        """Call the commands again, as a person would, and do what is left to do; gives the last run."""
        # One that was done when the fault came may say so: what counts is what the tables hold in the end.
        again = () if self.commands == WORK else self.commands
        code, run = launcher.run(home, *self.after, *TO_THE_END, attempts=again)
        assert code == 0, run.said
        return run

    def count(self, tally: Tally, home: Path, what: str, *, came: bool = True) -> None:
        """Count what is there against what the landing files say."""
        wanted = self._left(expected(home)) + Counter({("quarantine",): self.moved})
        tally.count(wanted, self._left(found(home)), what, came=came)

    def _left(self, rows: Rows) -> Rows:
        return Counter({row: count for row, count in rows.items() if self.erased not in row[1:2]})


SCENES = {
    "runs": Scene(WORK),
    "first runs": Scene(WORK, on="fresh"),
    "full refresh": Scene(FULL_REFRESH, before=WORK),
    "maintenance": Scene((("maintain",),), before=WORK),
    "move of state": Scene((("state", "move", "windows", "--param", "key_groups=7", "--yes"),), before=WORK),
    "branch and promotion": Scene((("try", "totals", "again"), ("promote", "totals", "again")), before=WORK),
    "rebuild": Scene(((*INGEST, "--rebuild"), *FULL_REFRESH), after=FULL_REFRESH),
    "erasure": Scene(
        (("erase", "clicks", "--where", "user=bob", "--yes", "--why", "asked for"),),
        before=TO_THE_END,
        erased="bob",
    ),
    "quarantine": Scene(
        (("quarantine", "clicks", '{"user": "bob", "at": "2024-01-01T00:06:00Z"}', "--why", "no click", "--yes"),),
        before=TO_THE_END,
        erased="bob",
        moved=1,
    ),
    # What lands after the end of all windows is late, until they are computed again.
    "reprocess": Scene(
        (("reprocess", "windows", "--since", "2024-01-01", "--why", "late", "--yes"),), before=(END, *WORK)
    ),
    "time that goes on": Scene((END,), before=WORK),
}
"""By name. The sinks' points are Kafka's scene (`tests/keyfold.sinks.test_publisher.py`)."""

# Which scene comes to a point: the first word says.
SCENE_OF = {
    "plan": "runs",
    "work": "runs",
    "changes": "runs",
    "state": "runs",
    "done": "runs",
    "commit": "runs",
    "merge": "runs",
    "replace": "reprocess",
    "journal": "runs",
    "generation": "full refresh",
    "going live": "full refresh",
    "fill": "move of state",
    "promote": "branch and promotion",
    "rebuild": "rebuild",
    "rewrite": "quarantine",
    "maintenance": "maintenance",
}
