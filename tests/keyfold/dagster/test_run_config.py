"""What a run config may say: none of it names a command, a class, a path or a variable."""

from typing import Any

import dagster as dg
import pytest
from dagster._config import ConfigTypeKind
from pydantic import ValidationError

from dagster_project.definitions import defs
from keyfold.dagster.resources import LakehouseResource, SparkResource
from keyfold.dagster.run_config import SparkForRun, check_names_no_variable, closed
from keyfold.errors import KeyfoldError
from keyfold.keyed.job.parameters import is_path
from keyfold.lakehouse import Lakehouse
from spark_jobs.jobs.registry import JOBS
from tests.keyfold.dagster.telling_job import telling

EVERYTHING = defs.get_repository_def().get_all_jobs()


def leaves(kind: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The places of a config where a value may stand."""
    if ConfigTypeKind.has_fields(kind.kind):
        return {leaf for name, field in kind.fields.items() for leaf in leaves(field.config_type, (*path, name))}
    return {path}


@pytest.mark.parametrize("job", EVERYTHING, ids=lambda job: job.name)
def test_outside_of_its_ops_a_run_config_takes_what_is_listed_here_and_nothing_else(job):
    found = {".".join(leaf) for leaf in leaves(job.run_config_schema.config_type) if leaf[0] != "ops"}
    assert found <= {
        *(f"resources.spark.config.{name}" for name in SparkForRun.model_fields),
        "resources.io_manager.config",  # of Dagster's one in memory, which reads none
        "loggers.console.config.log_level",
        "loggers.console.config.name",
        "execution.config.marker_to_close",  # a text for an event
        "execution.config.step_dependency_config.require_upstream_step_success",
    }


def test_no_op_takes_a_path_or_an_address():
    names = {leaf[-1] for job in EVERYTHING for leaf in leaves(job.run_config_schema.config_type) if leaf[0] == "ops"}
    assert {"mode", "branch", "settle_seconds", "service"} <= names
    assert not names & {"landing", "home", "path", "file", "folder", "url", "command", "plugin", "geofences"}
    assert any(is_path(field) for declared in JOBS.values() for field in declared.parameter_fields.values())


@pytest.mark.parametrize(
    "config",
    [
        {"resources": {"spark": {"config": {"spark_config": {"spark.driver.extraJavaOptions": "-XX:OnError=id"}}}}},
        {"resources": {"spark": {"config": {"further_config": "spark.pyspark.python=/evil"}}}},
        {"resources": {"spark": {"config": {"packages": ["evil:evil:1"]}}}},
        {"resources": {"spark": {"config": {"master": "spark://evil.example:7077"}}}},
        {"resources": {"spark": {"config": {"app_name": "evil"}}}},
        {"resources": {"spark": {"config": {"ship": ["os"]}}}},
        {"resources": {"lakehouse": {"config": {"home": "/evil"}}}},
        {"ops": {"ingest_ride_points": {"config": {"landing": "/etc"}}}},
        {"resources": {"spark": {"config": {"driver_memory": "1g -XX:OnError=id"}}}},
        {"resources": {"spark": {"config": {"driver_memory": {"env": "PATH"}}}}},
        {"resources": {"spark": {"config": {"cores": 0}}}},
    ],
    ids=str,
)
def test_what_would_run_somebody_s_code_or_read_elsewhere_is_refused_when_the_config_is_loaded(config):
    with pytest.raises((dg.DagsterInvalidConfigError, dg.DagsterConfigMappingFunctionError)):
        dg.validate_run_config(defs.resolve_job_def("rides"), config)


def test_the_geofences_of_a_run_are_the_environment_s(monkeypatch):
    fleet = JOBS["fleet_warnings"].model
    assert fleet is not None
    with pytest.raises(dg.DagsterInvalidConfigError, match="geofences"):
        dg.validate_run_config(
            defs.resolve_job_def("fleet"), {"ops": {"fleet_warnings": {"config": {"geofences": "/etc/passwd"}}}}
        )
    assert fleet().model_dump()["geofences"] == ""
    monkeypatch.setenv("KEYFOLD_GEOFENCES", "yards.geojson")
    assert fleet().model_dump()["geofences"] == "yards.geojson"


def test_a_run_may_say_how_much_of_the_machine_it_takes(monkeypatch, tmp_path):
    asked = []

    def settings(self, _):
        asked.append(self.settings)
        return "a session"

    monkeypatch.setattr(SparkResource, "setup_for_execution", lambda self, context: None)
    monkeypatch.setattr(SparkResource, "create_resource", settings)
    monkeypatch.setattr(SparkResource, "teardown_after_execution", lambda self, context: None)
    monkeypatch.setenv("KEYFOLD_SPARK_CONF", "spark.ui.enabled=true spark.driver.memory=3g")
    spark = SparkResource(spark_config={"spark.ui.port": "4041"}, further_config=dg.EnvVar("KEYFOLD_SPARK_CONF"))
    resources = closed({"spark": spark, "lakehouse": LakehouseResource(home=str(tmp_path))})

    @dg.asset
    def looks(spark: dg.ResourceParam[str], lakehouse: dg.ResourceParam[Lakehouse]) -> None:
        assert (spark, lakehouse.home) == ("a session", tmp_path)

    given = {"driver_memory": "4g", "cores": 3, "shuffle_partitions": 7}
    with dg.DagsterInstance.ephemeral() as instance:
        for config in ({}, {"resources": {"spark": {"config": given}}}):
            assert dg.materialize([looks], resources=resources, run_config=config, instance=instance).success
    without, with_given = asked
    assert (without.master, without.conf["spark.driver.memory"]) == ("local[*]", "3g")
    assert with_given.master == "local[3]"
    assert with_given.conf == {
        "spark.ui.port": "4041",
        "spark.ui.enabled": "true",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "7",
    }


@pytest.mark.parametrize("size", ["4", "4t", "-1g", "0g", "4g ", "4g\n", "4g -Dx=y", "1234567g", "٤g"])
def test_a_size_is_a_size(size):
    with pytest.raises(ValidationError, match="driver_memory"):
        SparkForRun.model_validate({"driver_memory": size})


@pytest.mark.parametrize(
    ("config", "where"),
    [
        ({"words": {"env": "SECRET"}}, "tells.config.words"),
        ({"words": "a", "maybe": {"env": "SECRET"}}, "tells.config.maybe"),
        ({"words": "a", "more": ["b", {"env": "SECRET"}]}, r"tells.config.more\[1\]"),
        ({"words": "a", "by_name": {"b": {"env": "SECRET"}}}, "tells.config.by_name.b"),
        ({"words": "a", "count": {"env": "SECRET"}}, "tells.config.count"),
    ],
)
def test_a_run_config_that_asks_for_a_variable_is_refused_before_any_step(config, where, monkeypatch):
    monkeypatch.setenv("SECRET", "12345")
    with dg.DagsterInstance.local_temp() as instance:
        ran = dg.execute_job(dg.reconstructable(telling), instance, run_config={"ops": {"tells": {"config": config}}})
        (error,) = [event.job_failure_data.error for event in ran.all_events if event.is_job_failure]
        logs = str(instance.all_logs(ran.run_id))
    assert error is not None
    assert "may not name an environment variable" in error.message
    with pytest.raises(KeyfoldError, match=where):
        check_names_no_variable(telling.run_config_schema.config_type, {"ops": {"tells": {"config": config}}})
    assert "12345" not in logs


def test_a_column_may_be_called_env():
    config = {"words": "env", "by_name": {"env": "a"}, "more": ["env"]}
    check_names_no_variable(telling.run_config_schema.config_type, {"ops": {"tells": {"config": config}}})
