"""Options with which the Java processes of tests start fast: tests start some fifty, each for seconds.

Code does not run long enough there to pay for Java's optimizing compiler. Only the session that all tests of a process share
lives long enough. Classes come from the archive that `make setup` wrote (`keyfold.session.class_archive`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from keyfold.session.class_archive import with_class_archive
from keyfold.session.gateway import java_text

_QUICK = "-XX:TieredStopAtLevel=1"


def java_options() -> str:
    """Of a daemon or an executor; a driver's Java gets the archive from Keyfold itself."""
    return with_class_archive(_QUICK, java_text())


def fast_starts() -> dict[str, str]:
    """The variables of Spark's scripts by which it comes up fast, for a process that gets none of this one's."""
    return {"SPARK_LAUNCHER_OPTS": _QUICK, "SPARK_SUBMIT_OPTS": _QUICK}


def use_fast_starts() -> None:
    """Have every Spark that this process and its children start come up fast."""
    for name, options in fast_starts().items():
        os.environ.setdefault(name, options)


@contextmanager
def long_lived_java() -> Iterator[None]:
    """Start a Java within the context with the optimizing compiler: it pays for itself over hundreds of tests."""
    before = os.environ["SPARK_SUBMIT_OPTS"]
    os.environ["SPARK_SUBMIT_OPTS"] = before.replace(_QUICK, "")
    try:
        yield
    finally:
        os.environ["SPARK_SUBMIT_OPTS"] = before
