"""Test jobs without Spark.

- `TestHarness` runs batches of a job in memory.
- `play` runs whole runs of a job in memory, encodes the state between batches, and counts the events after each.
  `assert_same` compares the results of two plays.

Whole runs need no Spark either: `keyfold.ingest` and `keyfold.run` do small work in this process.
"""

from keyfold.keyed.calling.harness import TestHarness
from keyfold.testing.playing import accounted_for, assert_same, combined, merged, play, restart

__all__ = [
    "TestHarness",
    "accounted_for",
    "assert_same",
    "combined",
    "merged",
    "play",
    "restart",
]
