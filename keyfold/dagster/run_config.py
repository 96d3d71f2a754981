"""Restrict run configs: one may not name a command, a class, a path or a secret.

Everyone who can start a run, in Dagster's pages or by GraphQL, can give it a config. Spark settings can run commands, packages
and paths can load code, and `{"env": NAME}`, which Dagster's own types for `Config` accept instead of any text or number, can
reveal a secret. So the lakehouse and all that Spark is set to come only from the code location, a run may choose its runner, and all
fields have types that accept a value alone.
"""

from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticUndefined

from keyfold.runners import Choice


class RunConfig(BaseModel):
    """What a run may choose of the resource `keyfold`."""

    model_config = ConfigDict(extra="forbid")

    runner: Choice | None = Field(None, description="Where this run's work is done: auto, local or spark.")


def plain_fields(model: type[BaseModel]) -> dict[str, dg.Field]:
    """Return the fields of a model as Dagster's config, with types that accept no environment variable.

    Example:
        >>> plain_fields(RunConfig)["runner"].is_required
        False
    """
    fields = {}
    for name, field in model.model_fields.items():
        kind, default = field.annotation, field.get_default(call_default_factory=True)
        is_optional = get_origin(kind) in (Union, UnionType)
        if is_optional:
            (kind,) = (member for member in get_args(kind) if member is not NoneType)
        if get_origin(kind) is Literal:
            # Enums of one name and other values would be one to Dagster.
            kind = dg.Enum(f"{model.__name__}_{name}", [dg.EnumValue(str(value), value) for value in get_args(kind)])
        of_field = {} if default in (None, PydanticUndefined) else {"default_value": default}
        fields[name] = dg.Field(
            dg.Noneable(kind) if is_optional else kind,  # pyright: ignore[reportArgumentType] - Python's types are types of Dagster
            is_required=False,
            description=field.description,
            **of_field,
        )
    return fields
