"""Restrict run configs: one may not name a command, a class, a path or a secret.

Everyone who can start a run, in Dagster's pages or by GraphQL, can give it a config. Spark settings can run commands, packages
and paths can load code, and `{"env": NAME}`, which Dagster's own types for `Config` accept instead of any text or number, can
reveal a secret. So the lakehouse and Spark's master, packages and settings come only from the code location, a run may choose its
memory, cores and partitions, and all fields have types that accept a value alone.
"""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticUndefined

from keyfold.errors import Misconfigured
from keyfold.runners import Choice
from keyfold.session import SparkSettings

M = TypeVar("M", bound=BaseModel)

_SIZE = r"^[1-9][0-9]{0,5}[mg]$"


class SparkForRun(BaseModel):
    """Spark settings that a run may choose; the others come from the code location."""

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

    @classmethod
    def config_schema(cls) -> dict[str, dg.Field]:
        """Return the fields for Dagster."""
        return plain_fields(cls)

    @classmethod
    def given(cls, config: Mapping[str, Any]) -> Self:
        """Return the choice of a run.

        Raises:
            KeyfoldError: a value is out of bounds.
        """
        return checked(cls, config, "resources: keyfold")

    def over(self, settings: SparkSettings) -> dict[str, Any]:
        """Return the fields of the settings that this run changes."""
        is_local = settings.master.startswith("local")
        conf = {
            "spark.driver.memory": self.driver_memory,
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": self.executor_cores,
            "spark.cores.max": None if is_local else self.cores,
            "spark.sql.shuffle.partitions": self.shuffle_partitions,
        }
        given = {name: str(value) for name, value in conf.items() if value is not None}
        return {
            "conf": {**settings.conf, **given},
            "master": f"local[{self.cores}]" if is_local and self.cores else settings.master,
        }


def plain_fields(model: type[BaseModel]) -> dict[str, dg.Field]:
    """Return the fields of a model as Dagster's config, with types that accept no environment variable.

    Example:
        >>> plain_fields(SparkForRun)["cores"].is_required
        False
    """
    fields = {}
    for name, field in model.model_fields.items():
        kind, default = field.annotation, field.get_default(call_default_factory=True)
        is_optional = get_origin(kind) in (Union, UnionType)
        if is_optional:
            (kind,) = (one for one in get_args(kind) if one is not NoneType)
        if get_origin(kind) is Literal:
            # Enums of one name and other values would be one to Dagster.
            kind = dg.Enum(f"{model.__name__}_{name}", [dg.EnumValue(str(one), one) for one in get_args(kind)])
        given = {} if default in (None, PydanticUndefined) else {"default_value": default}
        fields[name] = dg.Field(
            dg.Noneable(kind) if is_optional else kind,  # pyright: ignore[reportArgumentType] - Python's types are types of Dagster
            is_required=False,
            description=field.description,
            **given,
        )
    return fields


def checked(model: type[M], config: Mapping[str, Any], where: str) -> M:
    """Return a config as its model.

    Raises:
        KeyfoldError: a value is invalid; the message does not repeat it.
    """
    try:
        return model.model_validate(config)
    except ValidationError as error:
        faults = "; ".join(f"{fault['loc'][0] if fault['loc'] else ''}: {fault['msg']}" for fault in error.errors())
        raise Misconfigured(f"{where}: {faults}") from None
