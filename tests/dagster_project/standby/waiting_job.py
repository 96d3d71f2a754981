"""Definitions that a process can stand by with: one job that writes who runs it, and one that waits to be stopped."""

import os
import time
from pathlib import Path

import dagster as dg


@dg.op
def tell() -> None:
    Path(os.environ["TOLD"]).write_text(str(os.getpid()))


@dg.op
def wait() -> None:
    Path(os.environ["TOLD"]).write_text(str(os.getpid()))
    time.sleep(120)


@dg.job
def quick() -> None:
    tell()


@dg.job
def slow() -> None:
    wait()


defs = dg.Definitions(jobs=[quick, slow], executor=dg.in_process_executor)
