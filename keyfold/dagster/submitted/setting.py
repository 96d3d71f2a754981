"""Read `KEYFOLD_RUNS`, which chooses the process that Spark work runs in."""

import os
from collections.abc import Mapping

from keyfold.errors import Misconfigured

RUNS_VARIABLE = "KEYFOLD_RUNS"
IN_PROCESS, SPARK_SUBMIT = "in-process", "spark-submit"


def is_submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether Spark work runs in child processes.

    Raises:
        KeyfoldError: the variable has another value, or spark-submit is missing.
    """
    runs = environment.get(RUNS_VARIABLE) or IN_PROCESS
    if runs not in (IN_PROCESS, SPARK_SUBMIT):
        raise Misconfigured(
            f"{RUNS_VARIABLE} is {runs!r}: give {IN_PROCESS} (Spark in the run's own process) or {SPARK_SUBMIT} (a child "
            "process for each job, by Dagster Pipes)"
        )
    if runs == SPARK_SUBMIT:
        # Imported late: the web server needs only the names above, not Spark.
        from keyfold.session.submitting import spark_submit  # noqa: PLC0415

        spark_submit()
    return runs == SPARK_SUBMIT
