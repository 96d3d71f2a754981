"""What a fault is counted in: how often it was tried, came, was survived, and what was lost and doubled by it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Rows = Counter[tuple[Any, ...]]
"""How often each row is there."""

COLUMNS = ("tried", "came", "survived", "refused", "rows lost", "rows doubled")
"""Of the table at the end; a fault that was refused with a remedy that worked was survived, too."""


@dataclass
class Tally:
    """Counts one kind of fault.

    Attributes:
        promise: what holds whatever comes.
        fault: its name, for people.
        tried: how often it was made to happen.
        came: how often it did; a kill may come after the end.
        survived: how often nothing was lost or doubled.
        refused: in how many of these a run said that it does not go on, and what it said to do mended it.
        lost, doubled: rows, over all.
        told: of what went wrong, for the assertion.
    """

    promise: str
    fault: str
    tried: int = 0
    came: int = 0
    survived: int = 0
    refused: int = 0
    lost: int = 0
    doubled: int = 0
    told: list[str] = field(default_factory=list)

    def count(self, expected: Rows, found: Rows, what: str = "", *, came: bool = True, refused: bool = False) -> None:
        """Count one fault, by the rows that should be there and those that are.

        Args:
            expected: by one way of counting.
            found: by another.
            what: which one it was; told if it was not survived.
            came: whether it came to the fault at all.
            refused: whether a remedy was asked for, and done.
        """
        lost, doubled = expected - found, found - expected
        self.tried += 1
        self.came += came
        self.lost += lost.total()
        self.doubled += doubled.total()
        if expected == found:
            self.survived += came
            self.refused += refused
        else:
            self.fail(f"{what}: lost {_few(lost)}, doubled {_few(doubled)}")

    def fail(self, what: str) -> None:
        """Tell of one that was not survived."""
        self.told.append(what)

    @property
    def numbers(self) -> tuple[int, ...]:
        """As `COLUMNS` names them."""
        return (self.tried, self.came, self.survived, self.refused, self.lost, self.doubled)

    def judge(self) -> None:
        """Fail where something was not survived, or where no fault came at all."""
        assert not self.told, "\n".join(self.told[:20])
        assert self.came, f"{self.fault}: it never came to that"
        assert (self.survived, self.lost, self.doubled) == (self.came, 0, 0)


def _few(rows: Rows) -> str:
    return ", ".join(f"{count} x {row}" for row, count in sorted(rows.items(), key=repr)[:5]) or "nothing"
