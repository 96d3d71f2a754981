"""Options by which a Java of Spark's comes up fast: tests start some fifty, each for seconds.

Code does not run long enough there to pay for Java's slower compiler. Classes come from the archive that `make setup` wrote
(`keyfold.session.class_archive`).
"""

import os

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
