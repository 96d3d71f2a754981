"""Report the progress of a run, whose plans have the total."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """The progress of a run after a batch.

    Attributes:
        batch: number of the committed batch in the run, from 1.
        batches: number of batches of the run.
        done, total: amount that was read, and that the run will read.
        unit: unit of the amounts: "bytes" or "rows".
        seconds_left: estimate from the pace so far; None if there is none.
    """

    batch: int
    batches: int
    done: int
    total: int
    unit: str
    seconds_left: float | None = None

    @property
    def share(self) -> float:
        """The share that is done, 0 to 1."""
        return self.done / self.total if self.total else 1.0

    def describe(self) -> str:
        """Describe the progress in a line."""
        left = "" if self.seconds_left is None else f", about {self.seconds_left:,.0f} s left"
        return f"batch {self.batch} of {self.batches}, {self.share:.0%} of {self.total:,} {self.unit}{left}"


def seconds_left(done: int, total: int, seconds: float) -> float | None:
    """Estimate how long the rest takes at the pace so far; None if nothing is done."""
    return seconds / done * (total - done) if done else None
