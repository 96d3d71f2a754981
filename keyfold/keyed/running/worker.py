"""What a Python worker of Spark does once in its life."""

import gc
from functools import cache

from pyspark import TaskContext


@cache
def spare_what_is_loaded() -> None:
    """Leave all that is loaded by now out of Python's garbage collection; call it once a task's modules are.

    Spark's workers collect after each task. Of Polars, pyarrow and pydantic that takes 40 ms and finds nothing; a batch of
    few events is six tasks.
    """
    # Of the driver's own process, where tests call what workers do, the caller knows more.
    if TaskContext.get() is not None:
        gc.collect()
        gc.freeze()
