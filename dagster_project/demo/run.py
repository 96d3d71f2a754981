"""`python -m dagster_project.demo.run [--from DIR]`: land sample files, run and check everything, and print the results.

The demo runs in Dagster, in one process, on the instance that `make ui` shows: on Spark, or as KEYFOLD_RUNNER says. The first
demo lands four days of events, of which Dagster's run has the last one. Then it lands one late delivery, which is so small that
this process does the work, in a fraction of a second. A second demo lands more files and continues; with --from, it reads a folder
of your own ride point files instead. `batched_enrichment` calls the demo service, which runs on loopback during the demo.
"""

import argparse
import json
import logging
import os
import shlex
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dagster as dg
from rich.console import Console

from dagster_project.demo.report import assets_of, print_report
from keyfold import KeyfoldError, Lakehouse, Runners, ingest, run
from keyfold.cli.terminal import print_error
from keyfold.dagster.resources import lakehouse_home
from keyfold.dagster.serving import open_dagster_home
from keyfold.dagster.translator import DEFAULT
from keyfold.ingestion.landing import LANDING_VARIABLE
from keyfold.machine import keep_files_private
from spark_jobs.jobs.batched_enrichment.job import BATCHED_ENRICHMENT
from spark_jobs.jobs.batched_enrichment.services import SERVICES_VARIABLE
from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation.enrichment_service import DemoService
from spark_jobs.simulation.telemetry import GEOFENCES
from spark_jobs.streams import RIDE_POINTS, SALES, STREAMS


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return 0 if every table was written and no blocking check failed, else 1."""
    parser = argparse.ArgumentParser(prog="dagster_project.demo.run", description=__doc__)
    parser.add_argument("--from", dest="folder", type=Path, help="folder of your own ride point files")
    folder: Path | None = parser.parse_args(arguments).folder
    keep_files_private()
    began = time.monotonic()
    try:
        lakehouse = Lakehouse(lakehouse_home())
        with ExitStack() as demo:
            result, landed = _own_files(demo, lakehouse, folder) if folder else _samples(demo, lakehouse)
            good = print_report(Console(), lakehouse, result, landed=landed, seconds=time.monotonic() - began)
            if good and folder is None:
                print(_late_delivery(lakehouse))
    except KeyfoldError as error:
        print_error(str(error))
        return 1
    return 0 if good else 1


def _own_files(demo: ExitStack, lakehouse: Lakehouse, folder: Path) -> tuple[dg.ExecuteInProcessResult, str]:
    """Run the jobs of rides over a user's files; return the run's result and a description of the files."""
    if not folder.is_dir():
        raise KeyfoldError(f"{folder} is not a folder; give one with NDJSON, CSV or Parquet files of ride points")
    files = sum(1 for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "_")))
    if not files:
        raise KeyfoldError(f"{folder} has no files; put NDJSON, CSV or Parquet files of ride points there")
    os.environ[LANDING_VARIABLE] = shlex.quote(f"{RIDE_POINTS.name}={folder.resolve()}")
    instance = demo.enter_context(_instance(lakehouse))
    return _run(instance, {}, group="rides"), f"{files:,} files in {folder}"


def _samples(demo: ExitStack, lakehouse: Lakehouse) -> tuple[dg.ExecuteInProcessResult, str]:
    """Land sample files and run everything over them; return the result of Dagster's run and a description of the files."""
    # Imported late, with the simulation: a mistyped folder should not cost it.
    from dagster_project.demo import deliveries  # noqa: PLC0415

    home = lakehouse.home
    if not isinstance(home, Path):
        raise KeyfoldError(f"the demo needs a lakehouse on this machine, and KEYFOLD_HOME is {home}: unset it")
    instance = demo.enter_context(_instance(lakehouse))
    service = demo.enter_context(DemoService())
    # Replaces the configured services for this process: a demo must not send them anything.
    os.environ[SERVICES_VARIABLE] = json.dumps({"demo": {"url": service.url}})
    # Geofences of the simulated fleet; open warnings are not affected.
    os.environ["KEYFOLD_GEOFENCES"] = str(GEOFENCES)
    landed, days = [], deliveries.DAYS if deliveries.is_first_demo(home) else 1
    for day in range(days):
        landed += deliveries.land_day(home, day) if days > 1 else deliveries.land_more(home)
        deliveries.report_landed(instance, lakehouse)
        if day < days - 1:
            deliveries.take_in(lakehouse)
    # The demo's own files are written before the run begins.
    ops: dict[str, Any] = {f"ingest_{stream}": {"config": {"settle_seconds": 0}} for stream in STREAMS}
    ops[BATCHED_ENRICHMENT.name] = {"config": {"service": ""}}
    result = _run(instance, ops)
    if days > 1:
        _compute_a_day_again(instance, lakehouse, deliveries.land_late_sales(lakehouse))
    return result, deliveries.summary_of(landed, days)


def _compute_a_day_again(instance: dg.DagsterInstance, lakehouse: Lakehouse, day: str) -> None:
    """Let Dagster compute a day of `top_products` again, as a backfill does: late sales of it count then."""
    from dagster_project.definitions import EVERYTHING, defs  # noqa: PLC0415 - as below

    ingest(lakehouse, SALES, runners=Runners("local"))
    defs.resolve_job_def(EVERYTHING.name).execute_in_process(
        instance=instance,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        raise_on_error=False,
        asset_selection=[DEFAULT.get_asset_key("top_products")],
        partition_key=day,
    )


def _late_delivery(lakehouse: Lakehouse) -> str:
    """Land one file of a ride that ended long ago, take it in, and return what became of it."""
    from dagster_project.demo.deliveries import land_late_ride  # noqa: PLC0415 - as above

    land_late_ride(lakehouse)
    began = time.monotonic()
    runners = Runners("auto")
    taken = ingest(lakehouse, RIDE_POINTS, runners=runners)
    ingested = time.monotonic()
    job = JOBS["ride_summaries"]
    summary = run(lakehouse, job, runners=runners)
    return (
        f"\nOne late delivery: {taken.accepted} events, ingested in {ingested - began:.2f} s; "
        f"ride_summaries in {time.monotonic() - ingested:.2f} s, {summary.counts.rows[job.late_table]} of them late\n"
        f"({summary.runner})"
    )


def _run(instance: dg.DagsterInstance, ops: dict[str, Any], group: str | None = None) -> dg.ExecuteInProcessResult:
    """Run everything, or a group, with its checks in Dagster."""
    # Imported late: it reads the environment, and takes seconds, which a mistyped folder should not cost.
    from dagster_project.definitions import EVERYTHING, defs  # noqa: PLC0415

    job = defs.resolve_job_def(EVERYTHING.name)
    for pool in {node.pool for node in job.all_node_defs if isinstance(node, dg.OpDefinition) and node.pool}:
        # Dagster applies the default limit to a pool only from its second use on, so two first runs would not wait.
        instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
    return job.execute_in_process(
        instance=instance,
        run_config={"ops": ops, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        raise_on_error=False,
        asset_selection=assets_of(defs, group) if group else None,
    )


def _instance(lakehouse: Lakehouse) -> dg.DagsterInstance:
    """Open the Dagster instance that `make ui` shows, with the project's settings."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    return open_dagster_home(Path(os.environ.setdefault("DAGSTER_HOME", str(lakehouse.home / "dagster"))))


if __name__ == "__main__":
    sys.exit(main())
