"""A run that finds nothing new runs no query of Spark; its events are counted all the same, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.keyed.conservation import check_conservation
from spark_jobs.keyed.runner import run_job
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.session import SparkSettings, build_session
from tests.spark_jobs.keyed.conftest import land
from tests.spark_jobs.keyed.toy_jobs import windows

__all__ = ["land"]  # a fixture


@pytest.mark.long
def test_events_are_counted_where_no_query_has_run(spark, lakehouse, land):
    land(("ann", 0), ("bob", 30))
    run_job(spark, lakehouse, windows())
    command = [sys.executable, "-m", "tests.spark_jobs.test_conservation_in_a_new_process", str(lakehouse.home)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split() == ["0", "True", "2"]


def main(home: str) -> None:
    """Print how many batches a run made, whether its events balance, and how many they are."""
    session = build_session(SparkSettings(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}))
    batches = len(run_job(session, Lakehouse(Path(home)), windows()).batch_seconds)
    found = check_conservation(session, Lakehouse(Path(home)), windows())
    print(batches, found.balanced, found.events_read)


if __name__ == "__main__":
    main(sys.argv[1])
