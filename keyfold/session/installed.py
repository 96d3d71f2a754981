"""Whether what a Spark session needs is installed: `keyfold[spark]`, and Java unless the session is a client of Spark Connect."""

import os
import shutil
from importlib.util import find_spec

from keyfold.errors import Misconfigured

_PACKAGES = ("pyspark", "pandas")
"""What the extra `spark` installs: Spark's Python workers load pandas."""


def missing_for_spark(*, needs_java: bool = True) -> str | None:
    """Return what Spark lacks here and how to get it; None if nothing.

    Args:
        needs_java: whether the session has a Java process of its own.
    """
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed (pip install 'keyfold[spark]')"
    if needs_java and not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        return "this machine has no Java for Spark"
    return None


def check_spark_is_installed() -> None:
    """Check that the packages of `keyfold[spark]` are installed.

    Raises:
        Misconfigured: one is missing.
    """
    if missing := missing_for_spark(needs_java=False):
        raise Misconfigured(
            f'Spark is needed, but {missing}; or work in one process: Runners("local"), KEYFOLD_RUNNER=local'
        )
