"""Land the demo's files: in an empty lakehouse a delivery for each of four days, later one that continues where the last one ends.

All but the last delivery are ingested and run as the command line does it, by what is small enough for this process, and are reported
to Dagster as a continuous run is. So the plots of the first demo have a course, and its tables have days that are complete.
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from keyfold import Lakehouse, Runners, ingest, run
from keyfold.dagster.automation.new_data import look_at_folder
from keyfold.dagster.run_reports import DagsterReports
from keyfold.dagster.translator import DEFAULT
from keyfold.ingestion import known_files
from keyfold.runs.reports_to_dagster import written_by_ingest, written_by_job
from spark_jobs.jobs.batched_enrichment.job import BATCHED_ENRICHMENT
from spark_jobs.jobs.registry import JOBS
from spark_jobs.jobs.sales_with_products import PRODUCTS_AT
from spark_jobs.simulation import SIMULATORS, SimulationSummary, simulate
from spark_jobs.simulation.sales import products_table
from spark_jobs.streams import RIDE_POINTS, SALES, STREAMS

DAYS = 4
"""Deliveries of the first demo, a day apart; the last day is not over."""

ENDS_BEFORE_NOW = timedelta(hours=6)
"""Event time that is left for the next demo's delivery."""

WITH_A_BROKEN_FILE = "sales"
"""The stream with an archive that cannot be read, of which one check warns; it is in the last delivery."""


@dataclass(frozen=True)
class DayOfStream:
    """How much of a stream a delivery of the first demo has.

    Attributes:
        hours: span of event time, at the end of the day.
        size: number of rides, stations, … (`Simulator.counted`).
        files: number of readable files.
    """

    hours: float
    size: int
    files: int


A_DAY = {
    "ride_points": DayOfStream(hours=6, size=180, files=4),
    "weather": DayOfStream(hours=24, size=30, files=4),
    "metrics": DayOfStream(hours=24, size=12, files=4),
    "telemetry": DayOfStream(hours=3, size=8, files=4),
    "sales": DayOfStream(hours=24, size=1_000, files=4),
    "payments": DayOfStream(hours=24, size=250, files=4),
}
"""A day of each stream: few files and rows, since the checks of the last delivery cost most of the time."""


def is_first_demo(home: Path) -> bool:
    """Return whether no ride has landed yet in a lakehouse."""
    return not any((home / "landing" / RIDE_POINTS.name).rglob("*"))


def land_day(home: Path, number: int) -> list[SimulationSummary]:
    """Land the files of a day of the first demo, from 0 to `DAYS - 1`, and before the first one the list of products."""
    _land_products(home)
    last_end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - ENDS_BEFORE_NOW
    end = last_end - timedelta(days=DAYS - 1 - number)
    is_last = number == DAYS - 1
    return [
        simulate(
            stream,
            home / "landing" / stream,
            size=day.size,
            seed=number,
            start=end - timedelta(hours=day.hours),
            hours=day.hours,
            files=day.files,
            cut_short=is_last and stream == WITH_A_BROKEN_FILE,
        )
        for stream, day in A_DAY.items()
    ]


def land_more(home: Path) -> list[SimulationSummary]:
    """Land files of each stream that continue where those that have landed end."""
    _land_products(home)
    summaries = []
    for stream in SIMULATORS:
        folder = home / "landing" / stream
        # A new seed each time, so that events differ.
        files = sum(1 for path in folder.rglob("*") if path.is_file())
        size = A_DAY[stream].size if stream == "weather" else None
        summaries.append(simulate(stream, folder, size=size, seed=files, cut_short=stream == WITH_A_BROKEN_FILE))
    return summaries


def report_landed(instance: dg.DagsterInstance, lakehouse: Lakehouse) -> None:
    """Report the new files of each landing folder to Dagster, as its sensor does."""
    for stream in STREAMS:
        folder = lakehouse.landing(stream)
        decision = look_at_folder(
            folder,
            None,
            settle=timedelta(0),
            known=lambda stream=stream, folder=folder: known_files(lakehouse, stream, folder),
        )
        if decision.new:
            landing = dg.AssetMaterialization(DEFAULT.get_asset_key(f"landing.{stream}"), metadata=decision.metadata)
            instance.report_runless_asset_event(landing)


def take_in(lakehouse: Lakehouse) -> None:
    """Ingest what has landed and run all jobs, in this process, and report both to Dagster."""
    runners, reports = Runners("local"), DagsterReports()
    for stream in STREAMS.values():
        ingest(lakehouse, stream, runners=runners)
        if written := written_by_ingest(lakehouse, stream):
            reports.report(written)
    for name, job in JOBS.items():
        parameters: dict[str, Any] = {"service": ""} if name == BATCHED_ENRICHMENT.name else {}
        run(lakehouse, job, parameters=parameters, runners=runners)
        if written := written_by_job(lakehouse, name):
            reports.report(written)


def land_late_ride(lakehouse: Lakehouse) -> None:
    """Land a file with the points of a ride that ended a day ago, when its job counts it as late."""
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
    file = lakehouse.landing(RIDE_POINTS.name) / f"{ride}.ndjson"
    file.write_text("".join(f"{json.dumps(point)}\n" for point in points), encoding="utf-8")


def land_late_sales(lakehouse: Lakehouse) -> str:
    """Land sales of two days ago, whose hours are written; return the day."""
    noon = (datetime.now(UTC) - timedelta(days=2)).replace(hour=12, minute=0, second=0, microsecond=0)
    landing = lakehouse.home / "landing" / SALES.name
    assert isinstance(landing, Path)  # noqa: S101 - a demo's lakehouse is on this machine
    simulate(SALES.name, landing, size=200, seed=DAYS, start=noon, hours=6, files=4, cut_short=False)
    return f"{noon:%Y-%m-%d}"


def summary_of(landed: Sequence[SimulationSummary], deliveries: int) -> str:
    """Return what has landed, for people."""
    rows, files = sum(part.rows for part in landed), sum(part.files + part.unreadable_files for part in landed)
    over = f" of {deliveries} days" if deliveries > 1 else ""
    return f"simulated events{over}, {len(STREAMS)} streams, {rows:,} rows in {files:,} files"


def _land_products(home: Path) -> None:
    if not (products := home / PRODUCTS_AT).exists():
        # Written once, so that a user's changes are kept.
        products.parent.mkdir(parents=True, exist_ok=True)
        products_table().write_csv(products)
