"""Prepare a Python worker of Spark, once per process."""

import gc
from functools import cache

from pyspark import TaskContext


@cache
def freeze_loaded_modules() -> None:
    """Exclude the modules that are loaded now from garbage collection; call it after a task has imported its modules.

    Spark's workers collect garbage after each task. With Polars, pyarrow and pydantic loaded that takes 40 ms, and a small
    batch has six tasks.
    """
    # Without a task this is the driver's process (tests call workers' functions there), which is not ours to freeze.
    if TaskContext.get() is not None:
        gc.collect()
        gc.freeze()
