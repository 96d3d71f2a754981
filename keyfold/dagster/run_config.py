"""Restrict run configs: one may not name a command, a class, a path or a secret.

Everyone who can start a run, in Dagster's pages or by GraphQL, can give it a config. Spark settings can run commands, packages
and paths can load code, and `{"env": NAME}`, which Dagster's own types for `Config` accept instead of any text or number, can
reveal a secret. So the lakehouse and all that Spark is set to come only from the code location, a run may choose its runner, and all
fields have types that accept a value alone.
"""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticUndefined

from keyfold.errors import Misconfigured
from keyfold.runners import Choice

M = TypeVar("M", bound=BaseModel)


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
