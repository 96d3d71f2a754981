"""How far a run has come: the plan knows how much there is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """What a run has done of all it planned.

    Attributes:
        batch: the batch that was done, from 1 in each run.
        batches: of the run.
        done: how much is done.
        total: of how much; an estimate where a batch takes a part of a file.
        unit: what both count: `rows` or `bytes`.
        seconds_left: at the pace so far; None before there is one.
    """

    batch: int
    batches: int
    done: int
    total: int
    unit: str
    seconds_left: float | None = None

    def told(self) -> str:
        """For a log, in a line."""
        left = "" if self.seconds_left is None else f", about {self.seconds_left:.0f} s left"
        return f"batch {self.batch} of {self.batches}: {self.done:,} of {self.total:,} {self.unit}{left}"


def seconds_left(done: int, total: int, seconds: float) -> float | None:
    """What is left of the work, if it goes on as it went."""
    return seconds * (total - done) / done if 0 < done <= total else None
