"""The table at the end of a run of tests: every kind of fault, what is promised of it, and what became of it."""

from collections import Counter
from collections.abc import Iterable

from tests.chaos.tally import COLUMNS

WIDTH = 66


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
