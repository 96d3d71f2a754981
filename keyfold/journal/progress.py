"""How far a run has come: its plans say how much there is in all."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Told after each batch.

    Attributes:
        batch: which batch of the run was committed, from 1.
        batches: how many the run has.
        done, total: of what the run planned to read.
        unit: in which these count: "bytes" or "rows".
        seconds_left: at the pace so far; None while there is none.
    """

    batch: int
    batches: int
    done: int
    total: int
    unit: str
    seconds_left: float | None = None

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1."""
        return self.done / self.total if self.total else 1.0

    def describe(self) -> str:
        """In a line for people."""
        left = "" if self.seconds_left is None else f", about {self.seconds_left:,.0f} s left"
        return f"batch {self.batch} of {self.batches}, {self.share:.0%} of {self.total:,} {self.unit}{left}"


def seconds_left(done: int, total: int, seconds: float) -> float | None:
    """How long the rest will take at the pace so far; None while nothing is done."""
    return seconds / done * (total - done) if done else None
