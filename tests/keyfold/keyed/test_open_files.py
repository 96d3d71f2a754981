"""Spark's process has as many open files after many batches as after few."""

import os
from pathlib import Path

import pytest

from keyfold.keyed.runner import RunOptions, run_job
from tests.keyfold.keyed.toy_jobs import windows

BATCHES = 8


@pytest.mark.one_machine
def test_batches_leave_no_connection_open(spark, lakehouse, land):
    java = spark.session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    land(("ann", 0))
    run_job(lakehouse, windows(), runners=spark)
    before = sockets(java)
    for batch in range(BATCHES):
        land(*((user, 10 * batch + 1) for user in ("ann", "bob", "eve", "cid")))
    summary = run_job(lakehouse, windows(), options=RunOptions(max_bytes_per_batch=1), runners=spark)
    assert len(summary.batch_seconds) >= BATCHES
    # Each batch has two tasks with state. A worker more may have been started, and a query leaves one of its own.
    assert sockets(java) - before < BATCHES


def sockets(process):
    """How many sockets a process has open."""
    return sum(
        os.readlink(entry).startswith("socket:")
        for entry in Path(f"/proc/{process}/fd").iterdir()
        if entry.exists() or entry.is_symlink()
    )
