"""Report what a state partition did in a batch: one emitted row, which the driver adds up over all partitions."""

import struct
from itertools import zip_longest
from typing import NamedTuple

from pyspark.sql import Row

from keyfold.keyed.parts.manifest import NEVER, Manifest

REPORT = "#report"
"""Table name of emitted rows that have a `PartitionReport`."""

DROPPED = "#dropped"
"""Table name of emitted rows that name files of parts which the state no longer needs after this batch."""


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

    def pack(self) -> bytes:
        """Encode as bytes."""
        return struct.pack(f"<{5 + len(self.by_input)}q", *self[:5], *self.by_input)

    @classmethod
    def unpack(cls, payload: bytes) -> "PartitionReport":
        """Decode what `pack` encoded."""
        numbers = struct.unpack(f"<{len(payload) // 8}q", payload)
        events, open_change, deadline, stale_at, state_bytes, *by_input = numbers
        return cls(events, open_change, deadline, stale_at, state_bytes, tuple(by_input))

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


def report_row(events: int, open_change: int, state: Manifest | None, by_input: tuple[int, ...] = ()) -> Row:
    """Return the emitted row with the report of a state partition, whose state has this manifest; None for no state."""
    timers = state.timers if state else (NEVER, NEVER)
    report = PartitionReport(events, open_change, *timers, state.size if state else 0, by_input)
    return Row(table=REPORT, payload=report.pack())
