"""Options with which the Java processes of tests start fast: tests start some fifty, each for seconds.

Code does not run long enough there to pay for Java's optimizing compiler. Only the session that all tests of a process share
lives long enough.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

QUICK = "-XX:TieredStopAtLevel=1"
"""Java's option for its fast compiler alone."""


def fast_starts() -> dict[str, str]:
    """The variables of Spark's scripts by which it comes up fast, for a process that gets none of this one's."""
    return {"SPARK_LAUNCHER_OPTS": QUICK, "SPARK_SUBMIT_OPTS": QUICK}


def use_fast_starts() -> None:
    """Have every Spark that this process and its children start come up fast."""
    for name, options in fast_starts().items():
        os.environ.setdefault(name, options)


@contextmanager
def long_lived_java() -> Iterator[None]:
    """Start a Java within the context with the optimizing compiler: it pays for itself over hundreds of tests."""
    before = os.environ["SPARK_SUBMIT_OPTS"]
    os.environ["SPARK_SUBMIT_OPTS"] = before.replace(QUICK, "")
    try:
        yield
    finally:
        os.environ["SPARK_SUBMIT_OPTS"] = before
