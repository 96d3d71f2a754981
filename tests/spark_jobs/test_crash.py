"""SIGKILL at random moments: the tables end up as those of an unbroken run. `test_chaos.py` is its long form."""

import random
import signal

import pytest

from spark_jobs.jobs.parameters import build_job
from spark_jobs.jobs.registry import JOBS
from spark_jobs.keyed.conservation import check_conservation
from spark_jobs.lakehouse import Lakehouse
from tests.spark_jobs.broken_runs import kill_after, log_of, rows_of, run, unbroken_run
from tests.spark_jobs.crash_child import PARAMETERS

KILLS = 3
LONGEST_LIFE_IN_SECONDS = 6.0


@pytest.mark.long
def test_runs_killed_at_random_moments_leave_the_tables_of_an_unbroken_run(spark, tmp_path):
    unbroken = unbroken_run(spark, tmp_path)
    moments = random.Random(2026)
    kills, rounds = 0, 0
    while kills < KILLS:
        rounds += 1
        home = tmp_path / f"broken-{rounds}"
        code = -signal.SIGKILL
        while code:
            life = moments.uniform(0.2, LONGEST_LIFE_IN_SECONDS) if kills < KILLS else 300
            code = run(home, unbroken.landing, kill_after(life))
            assert code in (0, -signal.SIGKILL), log_of(home)
            kills += code != 0
        assert rows_of(Lakehouse(home)) == unbroken.rows
        assert check_conservation(spark, Lakehouse(home), build_job(JOBS["ride_summaries"], PARAMETERS)).balanced
