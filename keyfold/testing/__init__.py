"""Test jobs without Spark.

- `keyfold.TestHarness` runs batches of a job in memory.
- `play` runs whole runs of a job in memory, encodes the state between batches, and counts the events after each.
  `assert_same` compares the results of two plays.
- `durations_of` finds the durations that a job declares, and `silences_of` the silences around them, for tests that draw times.
- `parse_file` reads a landing file into valid rows and rejects.
- `assert_rows` asserts the rows of a key, as `keyfold explain --as-test` writes it down.
- `verify` plays made events, or a sample, in every way that must give the same answer (`keyfold verify JOB`).

Whole runs need no Spark either: `keyfold.ingest` and `keyfold.run` do small work in this process.
"""

from keyfold.ingestion.parsing import parse_file
from keyfold.testing.durations import durations_of, silences_of
from keyfold.testing.explained import assert_rows
from keyfold.testing.playing import accounted_for, assert_same, combined, play, restart
from keyfold.testing.verifying import Counterexample, assert_one_answer, verify

__all__ = [
    "Counterexample",
    "accounted_for",
    "assert_one_answer",
    "assert_rows",
    "assert_same",
    "combined",
    "durations_of",
    "parse_file",
    "play",
    "restart",
    "silences_of",
    "verify",
]
