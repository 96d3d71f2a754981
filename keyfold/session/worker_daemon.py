"""Spark's Python daemon (`spark.python.daemon.module`) with preloaded libraries, which the workers that it forks share.

Libraries that start threads are not preloaded, since a fork loses threads. So each worker loads Polars itself.

For a start and three maps on two cores, workers take 2.2 processor seconds, and 2.5 with Spark's own daemon (medians of three, by
turns). The difference grows with the number of cores. Later maps take the same.
"""

import gc
import os

# Set before NumPy is loaded. Each task has one core, and a fork would lose the threads of OpenBLAS.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pandas as pd
import pyarrow.parquet
import pydantic
import pyspark.worker
from pyspark.daemon import manager

# Names the imports, which only load the libraries into the memory that forked workers share.
LOADED = (pd, pyarrow.parquet, pydantic, pyspark.worker)

if __name__ == "__main__":
    # Garbage collection writes to every object it visits, which would copy the shared memory.
    gc.freeze()
    manager()
