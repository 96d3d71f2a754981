"""A Spark home without `python/lib/pyspark.zip`, so that Spark's Python processes import the installed pyspark.

Spark puts this zip first on the path of each Python process that it starts: the worker daemon, and a process for each query
with state. Python does not cache the bytecode of modules in a zip, so each process compiled pyspark anew, in 0.6 to 0.8
processor seconds (benchmarks/results/performance.md). The zip has the same code as the installed package.
"""

from pathlib import Path

import pyspark

_WITH_THE_ZIP = "python"


def make_spark_home(folder: Path) -> Path:
    """Make a folder of links to all parts of the installed pyspark but the zip, and return it.

    Args:
        folder: where to make it. It must exist as long as the Java process.

    Example:
        >>> make_spark_home(scratch)  # doctest: +SKIP
        PosixPath('/tmp/keyfold-scratch-x/spark-home')
    """
    home = folder / "spark-home"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != _WITH_THE_ZIP:
            (home / part.name).symlink_to(part)
    return home
