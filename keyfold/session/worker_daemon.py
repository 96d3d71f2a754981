"""Spark's Python daemon (`spark.python.daemon.module`) with preloaded libraries, which the workers that it forks share.

Libraries that start threads are not preloaded, since a fork loses threads. So each worker loads Polars itself.

A process with one small run of `ride_summaries` (1,000 events, two cores) takes 14.4 processor seconds with Spark's start, and 16.3
with Spark's own daemon (medians of three, by turns). Later runs of the process take the same.
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
