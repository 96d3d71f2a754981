"""A process of its own that does all that shows rows: ingest, a job, its checks and pages, a failing step, an alert.

`python -m tests.private_values.story FOLDER`: of two streams, alike but that the person of one is private. In every row the
person's name holds the stream's word of `NAMES`; rows that are wrong, and values of other columns that are wrong, hold it too.
"""

import json
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pyarrow as pa

from keyfold.columns import column, required
from keyfold.dagster.alerting import alert_sensors
from keyfold.dagster.assets.keyed_asset import keyed_assets
from keyfold.dagster.assets.shown import JobAssets, StreamAssets
from keyfold.dagster.assets.stream_checks import stream_checks
from keyfold.dagster.assets.streams import stream_assets
from keyfold.dagster.library import checks_of_job
from keyfold.dagster.resources import Keyfold
from keyfold.keyed.job.building import with_parameters
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import STEP_DECIDES, Input
from keyfold.keyed.job.parameters import JobParameters
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import Clock, Step
from keyfold.keyed.job.tables import Upsert
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.session import SparkSettings, build_session
from keyfold.stream import TIMESTAMP, Rule, Stream
from keyfold.suite import Suite
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS

PRIVATE, OPEN = "private_visits", "open_visits"
NAMES = {PRIVATE: "Quetzalcoatlus", OPEN: "Hatzegopteryx"}
UNLUCKY = 666.0
"""Of this amount the step makes an error that quotes the person."""

SCHEMA = pa.schema(
    [
        pa.field("person", pa.string(), nullable=False),
        pa.field("at", TIMESTAMP, nullable=False),
        pa.field("amount", pa.float64(), nullable=False),
    ]
)
STATE = pa.schema([pa.field("person", pa.string(), nullable=False), ("total", pa.float64()), ("visits", pa.int64())])
SUMS = pa.schema(
    [
        required("person", pa.string(), "Who came", lineage="person"),
        column("total", pa.float64(), "Paid so far", unit="dollars", lineage="amount"),
        pa.field("greeting", pa.string()),
    ]
)
SUITE: Suite = {
    name: {"type": kind, "kwargs": kwargs, "severity": "warning", "description": f"{name}."}
    for name, (kind, kwargs) in {
        "persons_are_known": (
            "expect_column_values_to_be_in_set",
            {"column": "person", "value_set": ["nobody"]},
        ),
        "the_most_common_is_known": (
            "expect_column_most_common_value_to_be_in_set",
            {"column": "greeting", "value_set": ["hello"]},
        ),
        "totals_are_small": (
            "expect_column_values_to_be_between",
            {"column": "total", "max_value": 0},
        ),
        "persons_are_numbers": (
            "unexpected_rows_expectation",
            {"unexpected_rows_query": "SELECT * FROM {batch} WHERE CAST(person AS INT) < 0"},
        ),
        "nobody_is_called_otherwise": (
            "unexpected_rows_expectation",
            {"unexpected_rows_query": "SELECT person AS total FROM {batch}"},
        ),
    }.items()
}


def add_up(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """The total of each person."""
    if unlucky := events.filter(pl.col("amount") == UNLUCKY)["person"].to_list():
        raise ValueError(f"no idea what to do with {unlucky[0]}")
    came = events.group_by("person").agg(total=pl.col("amount").sum(), visits=pl.len().cast(pl.Int64))
    sums = pl.concat([state, came]).group_by("person").agg(pl.col("total", "visits").sum())
    return Step(state=sums, output=sums.select("person", "total", greeting="Dear " + pl.col("person")))


def sums_of(stream: str) -> str:
    """The job of a stream."""
    return f"{stream}_sums"


def template_of(stream: str) -> KeyedJob:
    """What makes that job."""

    def build(parameters: JobParameters) -> KeyedJob:
        """The job."""
        return KeyedJob(
            sums_of(stream),
            Input(STREAMS[stream], columns=SCHEMA, delay="1m", final_at=STEP_DECIDES),
            "person",
            State(STATE, events=pl.col("visits").sum()),
            add_up,
            Upsert(SUMS, "person", events=pl.lit(0)),
        )

    return with_parameters(build)


def visit(name: str, number: int, amount: Any) -> str:
    """A line of a landing file."""
    return json.dumps({"person": f"{name} {number}", "at": "2026-01-01T00:00:00Z", "amount": amount}) + "\n"


def land(lakehouse: Lakehouse, stream: str) -> None:
    """Good rows, bad rows, what is no row at all, and a file without the columns' names."""
    landing, name = lakehouse.landing(stream), NAMES[stream]
    landing.mkdir(parents=True)
    (landing / "good.ndjson").write_text("".join(visit(name, number, 1.5) for number in range(20)))
    (landing / "bad.ndjson").write_text(f'{visit(name, 50, -1)}{visit(name, 51, name)}not json, {name}\n"{name}"\n')
    (landing / f"{stream}_headless.csv").write_text(f"{name} 60,2026-01-01T00:00:00Z,3\n")


def assets_of(name: str) -> list[Any]:
    """The assets and checks of a stream and its job, which are put where files in their folders would have put them."""
    stream = STREAMS[name] = Stream(
        name=name,
        schema=SCHEMA,
        event_time="at",
        event_id=("person", "at"),
        rules=(Rule(f"amount of {name} is negative", pl.col("amount") < 0),),
        private=("person",) if name == PRIVATE else (),
    )
    template = JOBS[sums_of(name)] = template_of(name)
    shown = StreamAssets(stream, quarantine_asset=True)
    landing_asset, ingest = stream_assets(shown)
    return [
        landing_asset,
        ingest,
        keyed_assets(JobAssets(template, late_asset=True)),
        stream_checks(shown),
        *checks_of_job(JobAssets(template), {sums_of(name): SUITE}),
    ]


def main() -> None:
    folder = Path(sys.argv[1])
    lakehouse = Lakehouse(folder / "home")
    project = [part for stream in NAMES for part in assets_of(stream)]
    for stream in NAMES:
        land(lakehouse, stream)
    session = build_session(SparkSettings.from_environment())
    spark = Runners("spark", session)
    (folder / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(folder / "dagster")) as instance:

        def materialize(runners: Runners, selection: dg.AssetSelection | None = None) -> dg.ExecuteInProcessResult:
            return dg.materialize(
                project,
                selection=selection,
                instance=instance,
                resources={"keyfold": Keyfold(lakehouse, runners)},
                run_config={"ops": {f"ingest_{stream}": {"config": {"settle_seconds": 0.0}} for stream in NAMES}},
                raise_on_error=False,
            )

        cursors = dict[str, str | None]()
        checks = [part for part in project if isinstance(part, dg.AssetChecksDefinition)]
        repository = dg.Definitions(
            assets=[part for part in project if part not in checks],
            asset_checks=checks,
            resources={"keyfold": Keyfold(lakehouse, spark)},
        ).get_repository_def()

        def alert() -> None:
            for sensor in alert_sensors():
                context = dg.build_sensor_context(
                    instance,
                    cursor=cursors.get(sensor.name),
                    repository_def=repository,
                )
                print(sensor(context))
                cursors[sensor.name] = context.cursor

        alert()
        evaluated = {
            f"{one.asset_key.to_user_string()}: {one.check_name}": one.passed
            for one in materialize(Runners("local")).get_asset_check_evaluations()
        }
        for stream, name in NAMES.items():
            (lakehouse.landing(stream) / "unlucky.ndjson").write_text(visit(name, 70, UNLUCKY))
        # Without checks, which have shown what they show.
        made = [key for stream in NAMES for key in (f"{stream}_events", sums_of(stream))]
        # On Spark, whose workers have errors and logs of their own.
        failed = materialize(spark, dg.AssetSelection.assets(*made).required_multi_asset_neighbors().without_checks())
        alert()
    session.stop()
    steps = [event.step_key for event in failed.all_node_events if event.is_step_failure]
    told = {"checks": evaluated, "failed_steps": steps}
    (folder / "told.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
