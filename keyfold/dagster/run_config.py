"""Restrict the run config of resources: it may not name a command, a class, a path or a secret.

Everyone who can start a run, in Dagster's pages or by GraphQL, can give it a config. Spark settings can run commands, packages
and paths can load code, and `{"env": NAME}`, which Dagster accepts instead of any text, can reveal a secret. So the lakehouse
and Spark's master, packages and settings come only from the environment of the code location. A run may choose its memory,
cores and partitions.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from dagster._config import ConfigType, ConfigTypeKind
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keyfold.dagster.resources import SparkResource
from keyfold.errors import Misconfigured
from keyfold.runners import Choice

_SIZE = r"^[1-9][0-9]{0,5}[mg]$"


class SparkForRun(BaseModel):
    """Spark settings that a run may choose; the others come from the environment."""

    model_config = ConfigDict(extra="forbid")

    runner: Choice | None = Field(None, description="Where this run's work is done: auto, local or spark.")
    driver_memory: str | None = Field(None, pattern=_SIZE, description="Java heap of the driver, such as 4g or 512m.")
    executor_memory: str | None = Field(None, pattern=_SIZE, description="Java heap of each executor of a cluster.")
    executor_cores: int | None = Field(
        None, ge=1, le=1_024, description="Parallel tasks in each executor of a cluster."
    )
    cores: int | None = Field(
        None,
        ge=1,
        le=4_096,
        description="Parallel tasks of local Spark, or of all executors of a standalone cluster together.",
    )
    shuffle_partitions: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Partitions of a shuffle. Existing state keeps its number of partitions.",
    )

    def over(self, spark: SparkResource) -> dict[str, Any]:
        """Return the fields of the resource with this run's settings applied."""
        is_local = spark.master.startswith("local")
        conf = {
            "spark.driver.memory": self.driver_memory,
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": self.executor_cores,
            "spark.cores.max": None if is_local else self.cores,
            "spark.sql.shuffle.partitions": self.shuffle_partitions,
        }
        given = {name: str(value) for name, value in conf.items() if value is not None}
        master = f"local[{self.cores}]" if is_local and self.cores else spark.master
        return {**_values(spark), "for_run": given, "master": master, "runner": self.runner or spark.runner}


def closed(resources: Mapping[str, dg.ConfigurableResource[Any]]) -> dict[str, dg.ResourceDefinition]:
    """Build resource definitions whose run config has the fields of `SparkForRun` for Spark, and no fields otherwise.

    Args:
        resources: the configured resources, by name.
    """
    definitions = {name: _closed(one) for name, one in resources.items()}
    # Dagster's default IO manager would take a folder from the run config. Jobs write their tables themselves.
    return {"io_manager": dg.mem_io_manager, **definitions}


@dg.executor(name="in_process", config_schema=dg.in_process_executor.config_schema)  # pyright: ignore[reportArgumentType]
def checked_in_process_executor(context: dg.InitExecutorContext) -> dg.Executor:
    """Build Dagster's in-process executor, which first checks that the run config names no environment variable."""
    return _Checked(dg.in_process_executor.executor_creation_fn(context))  # pyright: ignore[reportOptionalCall]


class _Checked(dg.Executor):
    def __init__(self, executor: Any) -> None:
        self._executor = executor

    @property
    def retries(self) -> Any:
        return self._executor.retries

    @property
    def step_dependency_config(self) -> Any:
        return self._executor.step_dependency_config

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        # Every run of the project passes here before its first step.
        check_names_no_variable(
            plan_context.job.get_definition().run_config_schema.config_type, plan_context.dagster_run.run_config
        )
        yield from self._executor.execute(plan_context, execution_plan)


def _closed(resource: dg.ConfigurableResource[Any]) -> dg.ResourceDefinition:
    definition = resource.get_resource_definition()
    if not isinstance(resource, SparkResource):
        return definition.configured(lambda _: _values(resource), config_schema={}, description=definition.description)
    kinds = {"integer": int, "string": str}
    fields = SparkForRun.model_json_schema()["properties"]
    schema = {
        name: dg.Field(kinds[field["anyOf"][0]["type"]], is_required=False, description=field["description"])
        for name, field in fields.items()
    }
    return definition.configured(
        lambda given: _spark_for_run(given).over(resource), config_schema=schema, description=definition.description
    )


def _values(resource: dg.ConfigurableResource[Any]) -> dict[str, Any]:
    """Return all fields as config; an omitted field would get its default, not the resource's value."""
    values = {name: getattr(resource, name) for name in type(resource).model_fields}
    # A variable is given by name, so that Dagster's records do not contain its value.
    return {
        name: {"env": value.env_var_name} if isinstance(value, dg.EnvVar) else value for name, value in values.items()
    }


def _spark_for_run(given: Mapping[str, Any]) -> SparkForRun:
    try:
        return SparkForRun.model_validate(given)
    except ValidationError as error:
        faults = "; ".join(f"{fault['loc'][0]} is {fault['input']!r}: {fault['msg']}" for fault in error.errors())
        raise Misconfigured(f"resources: spark: {faults}") from None


def check_names_no_variable(kind: ConfigType, config: Any) -> None:
    """Check that a run config names no environment variable.

    Args:
        kind: Dagster's type of the config.
        config: the config as given, before Dagster has replaced variables by their values.

    Raises:
        KeyfoldError: it names one; the message says where.
    """
    if found := list(_variables(kind, config, "run config")):
        raise Misconfigured(
            f"{', '.join(found)}: a run config may not name an environment variable, which may be secret; give the value"
        )


def _variables(kind: Any, config: Any, where: str) -> Iterator[str]:
    if kind.kind == ConfigTypeKind.SCALAR_UNION:
        if isinstance(config, Mapping):
            yield where
    elif kind.kind == ConfigTypeKind.NONEABLE:
        yield from _variables(kind.inner_type, config, where)
    elif kind.kind == ConfigTypeKind.ARRAY:
        for number, one in enumerate(config if isinstance(config, list) else []):
            yield from _variables(kind.inner_type, one, f"{where}[{number}]")
    elif isinstance(config, Mapping):
        fields = kind.fields if ConfigTypeKind.has_fields(kind.kind) else {}
        for name, one in config.items():
            if kind.kind == ConfigTypeKind.MAP:
                yield from _variables(kind.inner_type, one, f"{where}.{name}")
            elif name in fields:
                yield from _variables(fields[name].config_type, one, f"{where}.{name}")
