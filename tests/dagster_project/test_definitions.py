"""What Dagster loads: the graph, the environments, the pools."""

import sys
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_pyspark import PySparkResource
from pydantic import ValidationError

from dagster_project.definitions import defs
from keyfold.dagster import Keyfold, KeyfoldResource
from keyfold.errors import KeyfoldError
from keyfold.keyed.job.building import build_job
from keyfold.session import SparkSettings
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS
from tests.commands import ended_well

ROOT = Path(__file__).parents[2]


SIDES = {
    "ride_summaries": ["long_rides"],
    "moving_averages": ["latest_moving_averages", "station_sessions"],
    "anomaly_predictions": ["latest_predictions", "retired_models"],
    "vehicle_trips": ["vehicle_stops"],
    "top_products": ["latest_top_products", "sales_windows"],
    "purchase_totals": ["latest_purchase_totals"],
    "batched_enrichment": ["batched_enrichment_dead_letters"],
}


def parents(job):
    """What its asset depends on, by the tables that it reads."""
    built = build_job(job)
    return [*built.producers, *(f"{one.name}_events" for one in built.streams)]


def test_the_asset_graph_is_the_one_we_mean():
    graph = defs.resolve_asset_graph()
    assert {key.to_user_string(): sorted(parent.to_user_string() for parent in graph.get(key).parent_keys)
            for key in graph.get_all_asset_keys()} == {
        **{f"{stream}_landing": [] for stream in STREAMS},
        **{f"{stream}_events": [f"{stream}_landing"] for stream in STREAMS},
        **{name: parents(job) for name, job in JOBS.items()},
        **{side: [job] for job, sides in SIDES.items() for side in sides},
    }  # fmt: skip
    groups = {graph.get(key).group_name for key in graph.get_all_asset_keys()}
    assert groups >= {"rides", "weather", "metrics", "fleet", "sales", "payments", "enrichment", "joined"}


def test_definitions_load_without_what_only_a_run_needs():
    code = "import sys, dagster_project.definitions; print(*sys.modules)"
    loaded = set(ended_well(sys.executable, "-c", code).stdout.split())
    assert {"dagster", "expectations"} <= loaded
    assert not loaded & {
        "great_expectations",
        "jinja2",
        "matplotlib",
        "pandas",
        "scipy",
        "altair",
        "duckdb",
        "delta",
        "sqlalchemy",
    }
    # A tenth of a second each.
    assert not loaded & {"pyarrow.parquet", "pyarrow.compute", "pyarrow.dataset", "keyfold.runs.ingests"}


def test_only_the_landing_folders_are_external():
    graph = defs.resolve_asset_graph()
    assert graph.external_asset_keys == {dg.AssetKey(f"{stream}_landing") for stream in STREAMS}


def test_every_table_tells_its_columns_and_their_meaning():
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    for name, spec in specs.items():
        if name.endswith("_landing"):
            continue
        columns = spec.metadata["dagster/column_schema"].columns
        assert columns
        assert all(column.description for column in columns), name


def test_checks_that_hold_data_back_are_the_critical_ones():
    graph = defs.resolve_asset_graph()
    specs = [graph.get_check_spec(key) for key in graph.asset_check_keys]
    counted = [spec for spec in specs if spec.name in ("no_event_is_lost", "every_row_is_accounted_for")]
    assert all(spec.blocking for spec in counted)
    assert len(counted) == len(JOBS) + len(STREAMS)
    expected = [spec for spec in specs if "severity" in (spec.metadata or {})]
    assert all(spec.blocking == (spec.metadata["severity"] == "critical") for spec in expected)
    assert {True, False} == {spec.blocking for spec in expected}


def test_every_table_that_a_job_writes_has_a_suite_or_says_why_not():
    graph = defs.resolve_asset_graph()
    checked = {key.asset_key.to_user_string() for key in graph.asset_check_keys}
    tables = {table.name for job in JOBS.values() for table in build_job(job).tables if "." not in table.name}
    assert tables - checked == {"long_rides"}


def test_every_writing_step_has_a_pool_of_its_own():
    job = defs.resolve_implicit_global_asset_job_def()
    pools = {node.name: node.pool for node in job.all_node_defs if isinstance(node, dg.OpDefinition)}
    assert pools["ingest_ride_points"] == "stream_ride_points"
    assert pools["ride_summaries"] == pools["ride_summaries_checks"] == "job_ride_summaries"


def test_nothing_starts_by_itself():
    sensors = {sensor.name: sensor.default_status for sensor in defs.sensors or []}
    assert set(sensors) == {f"{stream}_landed" for stream in STREAMS}
    (automation,) = set(defs.get_repository_def().sensor_defs) - set(defs.sensors or [])
    assert automation.default_status is dg.DefaultSensorStatus.STOPPED
    assert set(sensors.values()) == {dg.DefaultSensorStatus.STOPPED}
    assert {schedule.default_status for schedule in defs.schedules or []} == {dg.DefaultScheduleStatus.STOPPED}


def test_there_is_one_schedule_a_group_and_one_job_for_all_of_them():
    groups = {spec.group_name for spec in defs.resolve_all_asset_specs()}
    assert {schedule.name for schedule in defs.schedules or []} == {f"{group}_schedule" for group in groups}
    shown = [job.name for job in defs.get_repository_def().get_all_jobs() if not job.name.startswith("__")]
    assert shown == ["everything"]


def test_only_a_job_s_own_table_is_to_be_kept_fresh_and_all_its_tables_start_together():
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    assert {name for name, spec in specs.items() if spec.freshness_policy} == set(JOBS)
    automated = {name for name, spec in specs.items() if spec.automation_condition}
    assert automated == {*JOBS, *(side for sides in SIDES.values() for side in sides)}


def test_the_definitions_load_through_the_workspace_file():
    (origin,) = WorkspaceFileTarget(paths=[str(ROOT / "workspace.yaml")]).create_origins()
    assert origin.location_name == "keyfold"
    assert origin.loadable_target_origin.module_name == "dagster_project.definitions"


def test_the_shipped_instance_settings_make_one_run_at_a_time_of_a_pool(tmp_path, monkeypatch):
    settings = ROOT / "keyfold" / "dagster" / "dagster.yaml"
    (tmp_path / "dagster.yaml").write_text(settings.read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        pools = instance.get_concurrency_config().pool_config
        assert pools.default_pool_limit == 1
        assert pools.pool_granularity is not None
        assert pools.pool_granularity.value == "run"
        assert instance.run_monitoring_enabled
        # A run whose machine went down holds its pools for a day at most.
        assert 0 < instance.run_monitoring_max_runtime_seconds <= 24 * 3600
        assert getattr(instance.run_coordinator, "dequeue_interval_seconds") == 1  # noqa: B009 - of the queue alone
        skipped = instance.get_tick_retention_settings(InstigatorType.SENSOR)[TickStatus.SKIPPED]
        assert skipped == 1
        assert not instance.telemetry_enabled
    monitoring = yaml.safe_load(settings.read_text())["run_monitoring"]
    polls, free = monitoring["poll_interval_seconds"], monitoring["free_slots_after_run_end_seconds"]
    # A run that did not start, or was cancelled, is over and its pools are free in two minutes.
    assert free > 0
    assert polls + max(monitoring["start_timeout_seconds"], monitoring["cancel_timeout_seconds"]) + free < 120 + polls


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spark": SimpleNamespace(spark_config={"spark.master": "locl[2]"})}, "is not a Spark master"),
        ({"spark": SimpleNamespace(spark_config={"driver": {"memory": "4g"}})}, "is not a Spark setting"),
        ({"spark": "local[2]"}, "spark is a str; give"),
        ({"runner": "flink"}, "choose one of"),
    ],
)
def test_a_wrong_setting_is_refused_when_it_is_loaded(settings, message):
    with pytest.raises((KeyfoldError, ValidationError), match=message):
        KeyfoldResource(**settings)


def test_the_resource_of_dagster_pyspark_says_how_spark_is_set_up():
    spark = PySparkResource(spark_config={"spark.master": "local[2]", "spark": {"driver": {"memory": "4g"}}})
    assert KeyfoldResource(spark=spark).settings == SparkSettings(master="local[2]", conf={"spark.driver.memory": "4g"})


def test_the_home_may_be_the_value_of_a_variable_when_a_run_begins(monkeypatch, tmp_path):
    resource = KeyfoldResource(dg.EnvVar("LAKE_OF_A_TEST"), "local")
    with pytest.raises(KeyfoldError, match="LAKE_OF_A_TEST is not set"):
        resource.open()
    monkeypatch.setenv("LAKE_OF_A_TEST", str(tmp_path))
    assert resource.open().lakehouse.home == tmp_path


def test_the_environment_chooses_the_session():
    environment = {
        "KEYFOLD_SPARK_MASTER": "k8s://https://api:6443",
        "KEYFOLD_SPARK_CONF": "spark.driver.host=10.0.0.1 spark.kubernetes.container.image=keyfold:1 "
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.home.mount.path=/mnt/keyfold",
        "KEYFOLD_HOME": "/mnt/keyfold/home",
        "KEYFOLD_SPARK_SHIP": "fleet_models",
    }
    settings = KeyfoldResource.from_environment(environment).settings
    assert (settings.master, settings.ship) == ("k8s://https://api:6443", ("fleet_models",))
    assert settings.conf["spark.driver.host"] == "10.0.0.1"


def test_a_run_tells_what_is_wrong_with_a_home_in_a_store(monkeypatch):
    def refuse(home: object) -> None:
        raise KeyfoldError(f"{home} is not reachable")

    monkeypatch.setattr("keyfold.dagster.resources.check_reachable", refuse)

    @dg.asset
    def uses(keyfold: dg.ResourceParam[Keyfold]) -> None: ...

    resource = KeyfoldResource("s3a://bucket/home", "local")
    assert resource.open().lakehouse, "a tick of a sensor says itself what it cannot read"
    run = dg.materialize([uses], resources={"keyfold": resource}, raise_on_error=False)
    assert "s3a://bucket/home is not reachable" in str([event for event in run.all_events if event.is_failure])


@pytest.mark.one_machine
def test_a_session_that_others_started_outlives_the_run(spark):
    settings = SparkSettings(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    resource = KeyfoldResource(spark=settings)

    @dg.asset
    def sees(keyfold: dg.ResourceParam[Keyfold]) -> bool:
        return keyfold.runners.session is spark.session

    result = dg.materialize([sees], resources={"keyfold": resource})
    assert result.output_for_node("sees") is True
    assert spark.session.range(3).count() == 3
