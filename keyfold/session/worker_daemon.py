"""Spark's Python daemon (`spark.python.daemon.module`), with libraries loaded that each worker needs: it forks workers, which share them.

Only what starts no threads of its own that a fork would lose. Polars does: each worker loads it.
"""

import gc
import os

# Before NumPy is loaded. Each task has one core, and a fork loses the threads of OpenBLAS.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pandas as pd
import pyarrow.parquet
import pydantic
import pyspark.worker
from pyspark.daemon import manager

LOADED = (pd, pyarrow.parquet, pydantic, pyspark.worker)

if __name__ == "__main__":
    # What is shared must not be copied: a collection writes to each object that it looks at.
    gc.freeze()
    manager()
