"""Definitions with one job that says where it runs and waits."""

import os
import time
from pathlib import Path

import dagster as dg

from keyfold.dagster.automation.upkeep.run_liveness import watched_in_process_executor

POOL = "stream_of_a_test"


@dg.op(pool=POOL)
def wait() -> None:
    aside = Path(os.environ["TOLD"] + ".aside")
    aside.write_text(str(os.getpid()), encoding="utf-8")
    aside.rename(os.environ["TOLD"])
    time.sleep(float(os.environ.get("SECONDS", "600")))


@dg.job
def waiting() -> None:
    wait()


defs = dg.Definitions(jobs=[waiting], executor=watched_in_process_executor)
