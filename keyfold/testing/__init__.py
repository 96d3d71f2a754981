"""Test jobs without Spark.

- `TestHarness` runs batches of a job in memory.
- `play` runs whole runs of a job in memory, encodes the state between batches, and counts the events after each.
  `assert_same` compares the results of two plays.
- `local_spark` replaces a Spark session: `keyfold.ingest` and `keyfold.run` then work in this process, with journal, state
  and Delta tables. A contract test checks that it and Spark make the same tables and counts.
"""

from keyfold.keyed.calling.harness import TestHarness
from keyfold.testing.local_spark import LocalSpark, local_spark
from keyfold.testing.playing import accounted_for, assert_same, combined, merged, play, restart

__all__ = [
    "LocalSpark",
    "TestHarness",
    "accounted_for",
    "assert_same",
    "combined",
    "local_spark",
    "merged",
    "play",
    "restart",
]
