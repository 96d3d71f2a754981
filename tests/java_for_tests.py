"""`python -m tests.java_for_tests`: an archive of the classes that Spark's Java loads, for the tests' many starts of it.

A suite starts Spark some fifty times, each time for seconds: half of Java's work is then loading classes, and compiling
code that will not run long enough to pay for it. With the archive, and with Java's fast compiler alone, a start and its
first job take less than half of the processor time. Java itself sees whether the archive fits its version and its jars,
and does without where it does not; it changes nothing of what Spark does.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from keyfold.ingestion import ingest
from keyfold.keyed.conservation import check_conservation
from keyfold.keyed.parameters import build_job
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.session import SparkSettings, build_session
from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation import simulate
from spark_jobs.streams import RIDE_POINTS

ARCHIVE = Path(sys.prefix) / "spark-for-tests.jsa"


_QUICK = "-XX:TieredStopAtLevel=1"


def java_options() -> str:
    """Options by which a Java of Spark's comes up fast: a driver's, a daemon's, an executor's."""
    # What it says of an archive that does not fit would stand in what a test reads.
    archive = f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable -Xlog:all=error:stderr" if ARCHIVE.exists() else ""
    return _QUICK + archive


def fast_starts() -> dict[str, str]:
    """The variables of Spark's scripts by which it comes up fast, for a process that gets none of this one's."""
    return {"SPARK_LAUNCHER_OPTS": _QUICK, "SPARK_SUBMIT_OPTS": java_options()}


def use_fast_starts() -> None:
    """Have every Spark that this process and its children start come up fast."""
    for name, options in fast_starts().items():
        os.environ.setdefault(name, options)


def main() -> int:
    """Unless it is there: work as the tests do, once, and have Java write down which classes that took."""
    set_up = ARCHIVE.with_name("keyfold-setup")
    if ARCHIVE.exists() and (not set_up.exists() or ARCHIVE.stat().st_mtime > set_up.stat().st_mtime):
        return 0
    made = ARCHIVE.with_suffix(".part")
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={made} -Xlog:disable -Xlog:all=error:stderr"
    spark = build_session(SparkSettings(master="local[2]"))
    with tempfile.TemporaryDirectory() as folder:
        lakehouse = Lakehouse(Path(folder))
        simulate("ride_points", Path(str(lakehouse.landing("ride_points"))), size=5, seed=1, files=4)
        ingest(spark, lakehouse, RIDE_POINTS)
        job = build_job(JOBS["ride_summaries"])
        run_job(spark, lakehouse, job)
        check_conservation(spark, lakehouse, job)
        table = str(lakehouse.table("ride_summaries"))
        spark.read.format("delta").load(table).persist().toArrow()
        spark.sql(f"DELETE FROM delta.`{table}` WHERE fare < 0")  # noqa: S608 - our own path
    spark.stop()
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    # So it ends by itself, and writes the archive; a signal would have it write none.
    gateway.proc.stdin.close()
    gateway.proc.wait()
    made.replace(ARCHIVE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
