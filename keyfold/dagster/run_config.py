"""What a run config may say of resources and variables: nothing that names a command, a class, a path or a secret.

Whoever can start a run, by the pages or by GraphQL, gives it a config. Spark's settings can run commands, packages and paths
can load code, and `{"env": NAME}`, which Dagster takes in place of any text, can show a secret of the environment. So the
lakehouse, Spark's master, packages and settings come from the environment of the code location alone; a run may choose
how much of the machine it takes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from dagster._config import ConfigType, ConfigTypeKind
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keyfold.dagster.resources import SparkResource
from keyfold.errors import Misconfigured

_SIZE = r"^[1-9][0-9]{0,5}[mg]$"


class SparkForRun(BaseModel):
    """What a run may say of Spark; each left out is as the environment says."""

    model_config = ConfigDict(extra="forbid")

    driver_memory: str | None = Field(None, pattern=_SIZE, description="Java's heap in the driver, such as 4g or 512m.")
    executor_memory: str | None = Field(None, pattern=_SIZE, description="Java's heap in each executor of a cluster.")
    executor_cores: int | None = Field(
        None, ge=1, le=1_024, description="Tasks at a time in each executor of a cluster."
    )
    cores: int | None = Field(
        None,
        ge=1,
        le=4_096,
        description="Tasks at a time: of local Spark, or in all executors of a standalone cluster.",
    )
    shuffle_partitions: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Partitions of a shuffle. Those of a state that is there already stay as they are.",
    )

    def over(self, spark: SparkResource) -> dict[str, Any]:
        """The fields of the resource, for this run."""
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
        return {**_values(spark), "for_run": given, "master": master}


def closed(resources: Mapping[str, dg.ConfigurableResource[Any]]) -> dict[str, dg.ResourceDefinition]:
    """The resources as definitions whose run config has the fields of `SparkForRun` for Spark, and none for any other.

    Args:
        resources: with all that they need, by name.
    """
    made = {name: _closed(one) for name, one in resources.items()}
    # Jobs write their tables themselves; Dagster's own default takes a folder from the run config.
    return {"io_manager": dg.mem_io_manager, **made}


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
    """All fields as config: what is left out would have its default, and not the resource's own value."""
    values = {name: getattr(resource, name) for name in type(resource).model_fields}
    # Of a variable its name, so that Dagster's records have no more.
    return {
        name: {"env": value.env_var_name} if isinstance(value, dg.EnvVar) else value for name, value in values.items()
    }


def _spark_for_run(given: Mapping[str, Any]) -> SparkForRun:
    try:
        return SparkForRun.model_validate(given)
    except ValidationError as error:
        told = "; ".join(f"{fault['loc'][0]} is {fault['input']!r}: {fault['msg']}" for fault in error.errors())
        raise Misconfigured(f"resources: spark: {told}") from None


def check_names_no_variable(kind: ConfigType, config: Any) -> None:
    """Check that a run config asks for no variable of the environment.

    Args:
        kind: Dagster's type of the config.
        config: as it was given, before Dagster has put values in the place of variables.

    Raises:
        KeyfoldError: it asks for one; says where.
    """
    if found := list(_variables(kind, config, "run config")):
        raise Misconfigured(
            f"{', '.join(found)}: a run config takes no variable of the environment, which may be secret; give the value"
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
