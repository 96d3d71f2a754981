"""Test jobs without Spark.

- `TestHarness` plays batches to a job in memory.
- `play` plays whole runs, writes the state down between batches and counts the events after each; `assert_same` compares two plays.
- `local_spark` stands in for a Spark session: `keyfold.ingest` and `keyfold.run` then do all they do on Spark, with journal,
  checkpoint and Delta tables, in this process. One contract test holds it and Spark to the same tables and counts.
"""

from keyfold.keyed.calling.harness import TestHarness
from keyfold.testing.local_batches import LocalBatches
from keyfold.testing.local_spark import LocalSpark, local_spark
from keyfold.testing.playing import accounted_for, assert_same, combined, merged, play, restart

__all__ = [
    "LocalBatches",
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
