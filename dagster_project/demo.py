"""`python -m dagster_project.demo [--from DIR]`: land, load, run and check everything once, then say what came out.

It goes through Dagster, in one process with one Spark session, and on the instance that `make ui` shows. Run again, it
lands a smaller set and goes on where it was; with --from it takes a folder of your own files instead.
"""

import argparse
import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg
from rich.console import Console

from dagster_project.demo_report import print_report
from dagster_project.resources import lakehouse_home
from spark_jobs.errors import KeyfoldError
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.simulation import simulate
from spark_jobs.streams import RIDE_POINTS

FIRST_RIDES = 1_000
MORE_RIDES = 200


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; 0 when every table was made and no check that blocks has failed, else 1."""
    parser = argparse.ArgumentParser(prog="dagster_project.demo", description=__doc__)
    parser.add_argument("--from", dest="folder", type=Path, help="folder of your own ride point files")
    folder: Path | None = parser.parse_args(arguments).folder
    errors = Console(stderr=True)
    began = time.monotonic()
    try:
        lakehouse = Lakehouse(lakehouse_home())
        landed = _land(lakehouse, folder)
        result, instance = _run(lakehouse, folder)
    except KeyfoldError as error:
        errors.print(f"[bold red]error:[/] {error}", highlight=False, soft_wrap=True)
        return 1
    with instance:
        good = print_report(
            Console(),
            lakehouse,
            result,
            instance,
            stream=RIDE_POINTS.name,
            job=RIDE_SUMMARIES.name,
            landed=landed,
            seconds=time.monotonic() - began,
        )
    return 0 if good else 1


def _land(lakehouse: Lakehouse, folder: Path | None) -> str:
    """Put sample files in the landing folder, unless the user has files; say what there is to read."""
    if folder is not None:
        if not folder.is_dir():
            raise KeyfoldError(f"{folder} is no folder; give one with NDJSON, CSV or Parquet files of ride points")
        files = sum(1 for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "_")))
        if not files:
            raise KeyfoldError(f"{folder} has no files; put NDJSON, CSV or Parquet files of ride points there")
        return f"{files:,} files in {folder}"
    landing = lakehouse.landing(RIDE_POINTS.name)
    earlier = sum(1 for _ in landing.glob("rides-*"))
    # Another seed each time, so that rides are never the same; the simulator goes on in time by itself.
    made = simulate(RIDE_POINTS.name, landing, size=MORE_RIDES if earlier else FIRST_RIDES, seed=earlier)
    return f"{made.size:,} simulated rides, {made.rows:,} rows in {made.files + made.unreadable_files} files"


def _run(lakehouse: Lakehouse, folder: Path | None) -> tuple[dg.ExecuteInProcessResult, dg.DagsterInstance]:
    instance = _instance(lakehouse)
    # After the environment is set; and it takes seconds, which a mistyped folder should not cost.
    from dagster_project.definitions import defs  # noqa: PLC0415

    config: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    if folder is not None:
        config["ops"] = {f"ingest_{RIDE_POINTS.name}": {"config": {"landing": str(folder.resolve())}}}
    job = defs.resolve_job_def("rides")
    for pool in {node.pool for node in job.all_node_defs if isinstance(node, dg.OpDefinition) and node.pool}:
        # Dagster applies the default limit to a pool from its second use on; two first runs would not wait.
        instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
    result = job.execute_in_process(instance=instance, run_config=config, raise_on_error=False)
    return result, instance


def _instance(lakehouse: Lakehouse) -> dg.DagsterInstance:
    """The instance that `make ui` shows, with the project's settings."""
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(lakehouse.home / "dagster")))
    home.mkdir(parents=True, exist_ok=True)
    settings = Path(__file__).with_name("dagster.yaml")
    shutil.copy(settings, home / "dagster.yaml")
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    return dg.DagsterInstance.get()


if __name__ == "__main__":
    sys.exit(main())
