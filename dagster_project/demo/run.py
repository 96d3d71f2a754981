"""`python -m dagster_project.demo.run [--from DIR]`: land sample files, run and check everything, and print the results.

The demo runs in Dagster, in one process, on the instance that `make ui` shows: on Spark, or as KEYFOLD_RUNNER says. Then it lands
one late delivery, which is so small that this process does the work, in a fraction of a second. A second demo lands more
files and continues; with --from, it reads a folder of your own ride point files instead. `batched_enrichment` calls the demo
service, which runs on loopback during the demo.
"""

import argparse
import json
import logging
import os
import shlex
import sys
import time
import uuid
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
from rich.console import Console

from dagster_project.demo.report import assets_of, print_report
from keyfold import KeyfoldError, Lakehouse, Runners, ingest, run
from keyfold.cli.terminal import print_error
from keyfold.dagster.resources import lakehouse_home
from keyfold.dagster.serving import open_dagster_home
from keyfold.ingestion.landing import LANDING_VARIABLE
from keyfold.machine import keep_files_private
from spark_jobs.jobs.batched_enrichment.job import BATCHED_ENRICHMENT
from spark_jobs.jobs.batched_enrichment.services import SERVICES_VARIABLE
from spark_jobs.jobs.registry import JOBS
from spark_jobs.jobs.sales_with_products import PRODUCTS_AT
from spark_jobs.simulation import simulate
from spark_jobs.simulation.enrichment_service import DemoService
from spark_jobs.simulation.sales import products_table
from spark_jobs.simulation.telemetry import GEOFENCES
from spark_jobs.streams import RIDE_POINTS, STREAMS

FIRST_RIDES = 1_000
"""Rides of the first demo; later demos land the simulator's default number."""

FIRST_HOURS = 12
"""Hours of rides in the first demo; more than the time between a ride and its weather."""

WITH_A_BROKEN_FILE = "sales"
"""The stream with an archive that cannot be read, of which one check warns."""

SIZES = {"weather": 30}
"""Number of weather stations; the other streams have the simulator's default sizes."""


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return 0 if every table was written and no blocking check failed, else 1."""
    parser = argparse.ArgumentParser(prog="dagster_project.demo.run", description=__doc__)
    parser.add_argument("--from", dest="folder", type=Path, help="folder of your own ride point files")
    folder: Path | None = parser.parse_args(arguments).folder
    keep_files_private()
    began = time.monotonic()
    try:
        lakehouse = Lakehouse(lakehouse_home())
        landed = _land(lakehouse, folder)
        result, instance = _run(lakehouse, folder)
    except KeyfoldError as error:
        print_error(str(error))
        return 1
    with instance:
        good = print_report(Console(), result, landed=landed, seconds=time.monotonic() - began)
        if good and folder is None:
            print(_late_delivery(lakehouse))
    return 0 if good else 1


def _land(lakehouse: Lakehouse, folder: Path | None) -> str:
    """Write sample files into the landing folders, unless the user gave a folder; return a description of the files."""
    home = lakehouse.home
    if not isinstance(home, Path):
        raise KeyfoldError(f"the demo needs a lakehouse on this machine, and KEYFOLD_HOME is {home}: unset it")
    if folder is not None:
        if not folder.is_dir():
            raise KeyfoldError(f"{folder} is not a folder; give one with NDJSON, CSV or Parquet files of ride points")
        files = sum(1 for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "_")))
        if not files:
            raise KeyfoldError(f"{folder} has no files; put NDJSON, CSV or Parquet files of ride points there")
        return f"{files:,} files in {folder}"
    rows = files = 0
    for stream in STREAMS:
        landing = home / "landing" / stream
        earlier = sum(1 for path in landing.rglob("*") if path.is_file())
        is_first = stream == RIDE_POINTS.name and not earlier
        size = SIZES.get(stream) or (FIRST_RIDES if is_first else None)
        # A new seed each time, so that events differ; the simulator continues in time by itself.
        made = simulate(
            stream,
            landing,
            size=size,
            seed=earlier,
            hours=FIRST_HOURS if is_first else None,
            cut_short=stream == WITH_A_BROKEN_FILE,
        )
        rows, files = rows + made.rows, files + made.files + made.unreadable_files
    if not (products := home / PRODUCTS_AT).exists():
        # Written once, so that a user's changes are kept.
        products.parent.mkdir(parents=True, exist_ok=True)
        products_table().write_csv(products)
    return f"simulated events of {len(STREAMS)} streams, {rows:,} rows in {files:,} files"


def _late_delivery(lakehouse: Lakehouse) -> str:
    """Land one file of a ride that ended long ago, take it in, and return what became of it."""
    ride = f"late-{uuid.uuid4()}"
    start = datetime.now(UTC) - timedelta(days=1)
    points = [
        {
            "ride_id": ride,
            "point_idx": number,
            "latitude": 40.7,
            "longitude": -73.9,
            "timestamp": (start + timedelta(seconds=30 * number)).isoformat(),
            "meter_reading": 2.5 + 0.1 * number,
            "meter_increment": 0.1,
            "ride_status": "enroute",
            "passenger_count": 1,
        }
        for number in range(100)
    ]
    landing = lakehouse.landing(RIDE_POINTS.name)
    (landing / f"{ride}.ndjson").write_text("".join(f"{json.dumps(point)}\n" for point in points), encoding="utf-8")
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


def _run(lakehouse: Lakehouse, folder: Path | None) -> tuple[dg.ExecuteInProcessResult, dg.DagsterInstance]:
    instance = _instance(lakehouse)
    # Imported late: it reads the environment, and takes seconds, which a mistyped folder should not cost.
    from dagster_project.definitions import defs  # noqa: PLC0415

    job = defs.resolve_implicit_global_asset_job_def()
    for pool in {node.pool for node in job.all_node_defs if isinstance(node, dg.OpDefinition) and node.pool}:
        # Dagster applies the default limit to a pool only from its second use on, so two first runs would not wait.
        instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
    # The demo's own files are written before the run begins.
    ops: dict[str, Any] = {
        f"ingest_{stream}": {"config": {"settle_seconds": 0}} for stream in STREAMS if folder is None
    }
    if folder is not None:
        os.environ[LANDING_VARIABLE] = shlex.quote(f"{RIDE_POINTS.name}={folder.resolve()}")
    with DemoService() if folder is None else nullcontext() as service:
        if service is not None:
            # Replaces the configured services for this process: a demo must not send them anything.
            os.environ[SERVICES_VARIABLE] = json.dumps({"demo": {"url": service.url}})
            ops[BATCHED_ENRICHMENT.name] = {"config": {"service": ""}}
            # Geofences of the simulated fleet; open warnings are not affected.
            os.environ["KEYFOLD_GEOFENCES"] = str(GEOFENCES)
        config = {"ops": ops, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        result = job.execute_in_process(
            instance=instance,
            run_config=config,
            raise_on_error=False,
            asset_selection=assets_of(defs, "rides") if folder else None,
        )
    return result, instance


def _instance(lakehouse: Lakehouse) -> dg.DagsterInstance:
    """Open the Dagster instance that `make ui` shows, with the project's settings."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    return open_dagster_home(Path(os.environ.setdefault("DAGSTER_HOME", str(lakehouse.home / "dagster"))))


if __name__ == "__main__":
    sys.exit(main())
