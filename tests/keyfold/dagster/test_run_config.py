"""What a run config may say: none of it names a command, a class, a path or a variable."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import dagster as dg
import pytest
from dagster._config import ConfigTypeKind
from pydantic import SecretStr, StringConstraints

from dagster_project.definitions import defs
from keyfold import Duration, JobParameters, KeyedJob, with_parameters
from keyfold.dagster import Keyfold, KeyfoldResource
from keyfold.dagster.assets.keyed_config import live_values
from keyfold.keyed.job.parameters import is_path
from spark_jobs.jobs.registry import JOBS
from tests.keyfold.keyed.toy_jobs import windows

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
        "resources.keyfold.config.runner",
        "resources.io_manager.config",  # of Dagster's one in memory, which reads none
        "loggers.console.config.log_level",
        "loggers.console.config.name",
        "execution.config.marker_to_close",  # a text for an event
        "execution.config.step_dependency_config.require_upstream_step_success",
    }


def test_no_op_takes_a_path_or_an_address():
    names = {leaf[-1] for job in EVERYTHING for leaf in leaves(job.run_config_schema.config_type) if leaf[0] == "ops"}
    assert {"mode", "advance_to", "settle_seconds", "service"} <= names
    assert not names & {"landing", "home", "path", "file", "folder", "url", "command", "plugin", "geofences"}
    assert any(is_path(field) for declared in JOBS.values() for field in declared.parameter_fields.values())


@pytest.mark.parametrize(
    "config",
    [
        {"resources": {"keyfold": {"config": {"spark_config": {"spark.driver.extraJavaOptions": "-XX:OnError=id"}}}}},
        {"resources": {"keyfold": {"config": {"further_config": "spark.pyspark.python=/evil"}}}},
        {"resources": {"keyfold": {"config": {"packages": ["evil:evil:1"]}}}},
        {"resources": {"keyfold": {"config": {"master": "spark://evil.example:7077"}}}},
        {"resources": {"keyfold": {"config": {"app_name": "evil"}}}},
        {"resources": {"keyfold": {"config": {"ship": ["os"]}}}},
        {"resources": {"keyfold": {"config": {"home": "/evil"}}}},
        {"ops": {"ingest_ride_points": {"config": {"landing": "/etc"}}}},
        {"resources": {"keyfold": {"config": {"runner": {"env": "PATH"}}}}},
        {"ops": {"ride_summaries": {"config": {"advance_to": {"env": "PATH"}}}}},
        {"ops": {"ride_summaries": {"config": {"timeout": {"env": "PATH"}}}}},
        {"ops": {"ingest_ride_points": {"config": {"start": {"env": "PATH"}}}}},
    ],
    ids=str,
)
def test_what_would_run_somebody_s_code_or_read_elsewhere_is_refused_when_the_config_is_loaded(config):
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(EVERYTHING[0], config)


def test_the_geofences_of_a_run_are_the_environment_s(monkeypatch):
    fleet = JOBS["fleet_warnings"].model
    assert fleet is not None
    with pytest.raises(dg.DagsterInvalidConfigError, match="geofences"):
        dg.validate_run_config(EVERYTHING[0], {"ops": {"fleet_warnings": {"config": {"geofences": "/etc/passwd"}}}})
    assert fleet().model_dump()["geofences"] == ""
    monkeypatch.setenv("KEYFOLD_GEOFENCES", "yards.geojson")
    assert fleet().model_dump()["geofences"] == "yards.geojson"


class _Options(JobParameters):
    count: int = 1
    gap: Duration = timedelta(minutes=30)
    level: Literal["low", "high"] | None = "low"
    note: str = "s3cret"
    optional: str | None = "s3cret"
    constrained: Annotated[str, StringConstraints(min_length=1)] | None = "s3cret"
    several: tuple[str, ...] = ("s3cret",)
    masked: SecretStr = SecretStr("s3cret")


def test_a_job_s_page_shows_its_live_parameters_but_no_text_that_its_author_leaves_open():
    def build(parameters: _Options) -> KeyedJob:
        """Clicks of each user."""
        return windows()

    shown = live_values(with_parameters(build))["parameters"]
    assert shown.value == {"count": 1, "gap": "PT30M", "key_groups": 4, "level": "low", "time": "event"}


def test_a_run_may_say_where_its_work_is_done(tmp_path):
    resource, seen = KeyfoldResource(str(tmp_path), "spark"), list[str]()

    @dg.asset
    def looks(keyfold: dg.ResourceParam[Keyfold]) -> None:
        assert keyfold.lakehouse.home == tmp_path
        seen.append(keyfold.runners.choice)

    with dg.DagsterInstance.ephemeral() as instance:
        for config in ({}, {"resources": {"keyfold": {"config": {"runner": "local"}}}}):
            resources = {"keyfold": resource}
            assert dg.materialize([looks], resources=resources, run_config=config, instance=instance).success
    assert seen == ["spark", "local"]
