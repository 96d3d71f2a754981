"""Build the run config of keyed jobs from their parameters; all fields are optional."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field, SecretBytes, SecretStr, create_model
from pydantic.fields import FieldInfo

from keyfold.errors import Misconfigured
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.parameters import is_path, parameter_text
from keyfold.times import parse_time


class KeyedRunConfig(BaseModel):
    """The run config that all keyed jobs share; `config_for` adds a job's own parameters."""

    model_config = ConfigDict(extra="forbid")

    mode: Literal["incremental", "full_refresh"] = Field(
        default="incremental",
        description="incremental: process new events. full_refresh: process all events into a new generation of tables, "
        "which replaces the live one when it is complete.",
    )
    advance_to: str | None = Field(
        default=None,
        description="Advance the watermark to this time (ISO 8601, such as 2026-01-31T12:00:00Z); due timers fire. "
        "Default: events, and the idle timeout of a silent stream, advance the watermark.",
    )

    def run_mode(self) -> Incremental | FullRefresh:
        """Return the mode of the run.

        Raises:
            KeyfoldError: a time is not ISO 8601.
        """
        mode = FullRefresh if self.mode == "full_refresh" else Incremental
        return mode(parse_time("advance_to", self.advance_to))

    def given(self) -> Mapping[str, Any]:
        """Return the job parameters that this run sets, as `build_job` takes them."""
        own = type(self).model_fields.keys() - KeyedRunConfig.model_fields.keys()
        values = {name: getattr(self, name) for name in own}
        return {name: value for name, value in values.items() if value is not None}


def config_for(declared: KeyedJob) -> type[KeyedRunConfig]:
    """Build the run config of a job: `KeyedRunConfig` and the job's parameters.

    Parameters that are file paths are left out, since a run config may not name a path. Types that Dagster's config lacks, such
    as durations, become text, which the job's own model parses and checks.
    """
    fields = {name: field for name, field in declared.parameter_fields.items() if not is_path(field)}
    # A job parameter of the same name would silently replace the field.
    if taken := sorted(fields.keys() & KeyedRunConfig.model_fields.keys()):
        raise Misconfigured(
            f"job {declared.name}: rename parameter {', '.join(taken)}; every run config has such a field"
        )
    given: dict[str, Any] = {
        name: (_type(field), _field(field, _how_to_change(declared, name))) for name, field in fields.items()
    }
    return create_model(
        f"{declared.model.__name__ if declared.model else declared.name.title()}Config",
        __base__=KeyedRunConfig,
        **given,
    )


def live_values(job: KeyedJob) -> dict[str, dg.MetadataValue]:
    """Return the parameters with which a job ran, as metadata, without texts that its author leaves open: one may hold a secret."""
    shown = {
        name
        for name, field in job.parameter_fields.items()
        if not _holds_open_text(field.annotation) and not is_path(field)
    }
    values = {name: value for name, value in job.parameters.items() if name in shown}
    return {"parameters": dg.MetadataValue.json(values)} if values else {}


def _holds_open_text(annotation: Any) -> bool:
    """Return whether values of a type may be or hold a text that is none of a few."""
    if get_origin(annotation) is Literal:
        return False
    texts = (str, bytes, SecretStr, SecretBytes, Any)
    return annotation in texts or any(_holds_open_text(part) for part in get_args(annotation))


def _type(field: FieldInfo) -> Any:
    kind = field.annotation
    if get_origin(kind) in (Union, UnionType):
        # An omitted field is None in a run config, also if the parameter has another default.
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is Literal:
        return kind | None
    return (kind if kind in (bool, int, float, str) else str) | None


def _how_to_change(declared: KeyedJob, name: str) -> str:
    if name in declared.free_parameters:
        return "Each run may set it."
    if name in declared.movable_parameters:
        return (
            f"Of a live generation it is changed by a move (`keyfold state move {declared.name} --param {name}=…`), which keeps the "
            "state, or by mode full_refresh, which processes all events again; a run that gives another value fails."
        )
    return "Of a live generation it is changed by mode full_refresh; a run that gives another value fails."


def _field(field: FieldInfo, how_to_change: str) -> Any:
    default = field.get_default(call_default_factory=True)
    return Field(
        default=None,
        description=f"{(field.description or '').rstrip('.')}. Default: the live generation's value (`parameters` of the last materialization), in the first run and in a full refresh "
        f"`{parameter_text(default)}`. {how_to_change}",
    )
