"""Report what a state partition did in a batch. The driver adds up the reports of all partitions."""

from itertools import zip_longest
from typing import NamedTuple

from keyfold.keyed.parts.manifest import NEVER, Manifest


class PartitionReport(NamedTuple):
    """The report of a state partition for a batch: events, change of open events, earliest timers, size of its state.

    For a job with several inputs, `by_input` has the number of events of each, in the order of their declaration.
    """

    events: int
    open_change: int
    deadline: int
    stale_at: int
    state_bytes: int
    by_input: tuple[int, ...] = ()

    def __add__(self, other: "PartitionReport") -> "PartitionReport":  # type: ignore[override]
        return PartitionReport(
            self.events + other.events,
            self.open_change + other.open_change,
            min(self.deadline, other.deadline),
            min(self.stale_at, other.stale_at),
            self.state_bytes + other.state_bytes,
            tuple(map(sum, zip_longest(self.by_input, other.by_input, fillvalue=0))),
        )


NOTHING = PartitionReport(0, 0, NEVER, NEVER, 0)
"""The empty report, to which others are added."""


def report_of(events: int, open_change: int, state: Manifest | None, by_input: tuple[int, ...] = ()) -> PartitionReport:
    """Return the report of a state partition, whose state has this manifest; None for no state."""
    timers = state.timers if state else (NEVER, NEVER)
    return PartitionReport(events, open_change, *timers, state.size if state else 0, by_input)
