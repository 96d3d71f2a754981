"""What a fault is counted in: how often it was tried, came, was survived, and what was lost and doubled by it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

WIDTH = 66
"""Of the first column of the table at the end of a run of tests."""

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
        counts: by `COLUMNS`: how often it was made to happen; how often it did, since a kill may come after the end; how often
            nothing was lost or doubled; in how many of these a run said that it does not go on, and what it said to do mended
            it; rows that were lost or doubled, over all.
        told: of what went wrong, for the assertion.
    """

    promise: str
    fault: str
    counts: Counter[str] = field(default_factory=Counter)
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
        self.counts.update({"tried": 1, "came": came, "rows lost": lost.total(), "rows doubled": doubled.total()})
        if expected == found:
            self.counts.update({"survived": came, "refused": refused})
        else:
            self.fail(f"{what}: lost {_few(lost)}, doubled {_few(doubled)}")

    def fail(self, what: str) -> None:
        """Tell of one that was not survived."""
        self.told.append(what)

    @property
    def numbers(self) -> tuple[int, ...]:
        """As `COLUMNS` names them."""
        return tuple(self.counts[name] for name in COLUMNS)

    def judge(self) -> None:
        """Fail where something was not survived, or where no fault came at all."""
        assert not self.told, "\n".join(self.told[:20])
        counts = self.counts
        assert counts["came"], f"{self.fault}: it never came to that"
        assert (counts["survived"], counts["rows lost"], counts["rows doubled"]) == (counts["came"], 0, 0)


def _few(rows: Rows) -> str:
    return ", ".join(f"{count} x {row}" for row, count in sorted(rows.items(), key=repr)[:5]) or "nothing"


def lines_of(told: Iterable[tuple[str, str, tuple[int, ...]]]) -> list[str]:
    """The table's lines, from (promise, fault, numbers): a promise, and below it its faults; at the end the sums.

    Faults of one name count together, wherever they were tried.
    """
    kinds: dict[str, dict[str, Counter[str]]] = {}
    for promise, fault, numbers in told:
        counts = kinds.setdefault(promise, {}).setdefault(fault, Counter())
        counts.update(dict(zip(COLUMNS, numbers, strict=True)))
    if not kinds:
        return []
    lines = [f"{'':{WIDTH}}" + "".join(f"{name:>14}" for name in COLUMNS)]
    everything: Counter[str] = Counter()
    for promise, faults in sorted(kinds.items()):
        lines += ["", promise]
        for fault, counts in faults.items():
            lines.append(_line(f"  {fault}", counts))
            everything.update(counts)
    return [*lines, "", _line("all", everything)]


def _line(name: str, counts: Counter[str]) -> str:
    return f"{name:{WIDTH}}" + "".join(f"{counts[column]:14,}" for column in COLUMNS)
