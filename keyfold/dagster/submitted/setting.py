"""`KEYFOLD_RUNS`: where what needs Spark runs."""

import os
from collections.abc import Mapping

from keyfold.errors import Misconfigured

RUNS_VARIABLE = "KEYFOLD_RUNS"
IN_PROCESS, SPARK_SUBMIT = "in-process", "spark-submit"


def is_submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether what needs Spark is to run in processes of its own.

    Raises:
        KeyfoldError: the variable says neither that nor the other, or there is no spark-submit.
    """
    runs = environment.get(RUNS_VARIABLE) or IN_PROCESS
    if runs not in (IN_PROCESS, SPARK_SUBMIT):
        raise Misconfigured(
            f"{RUNS_VARIABLE} is {runs!r}: give {IN_PROCESS} (Spark in the run's own process) or {SPARK_SUBMIT} (a process "
            "of its own for each job, by Dagster Pipes)"
        )
    if runs == SPARK_SUBMIT:
        # With Spark's own code, which the pages' server, that wants the names alone, does without.
        from keyfold.session.submitting import spark_submit  # noqa: PLC0415

        spark_submit()
    return runs == SPARK_SUBMIT
