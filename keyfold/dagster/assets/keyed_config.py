"""Run config of keyed jobs, made from their parameters: every one optional, with its default in the launchpad."""

from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import dagster as dg
from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from keyfold.errors import Misconfigured
from keyfold.keyed.generation.run_mode import ModeName, OptionNames, RunMode, parse_run_mode
from keyfold.keyed.job.parameters import build_job, is_path, parameter_text
from keyfold.keyed.job.template import JobTemplate

_FIELDS = OptionNames("branch", "since", "until", "advance_to", "set mode to replay")


class KeyedRunConfig(dg.Config):
    """What every keyed job takes; `config_for` adds a job's own parameters."""

    mode: ModeName = Field(
        default="incremental",
        description="incremental: process what is new. full_refresh: start over in a new generation of tables, which "
        "replaces the present one when all is done. replay: run over a range of event time into a branch, whose tables "
        "(`<table>@<branch>`) stand beside the live ones and change nothing.",
    )
    branch: str | None = Field(default=None, description="mode replay: the branch's name, such as `timeout-45m`.")
    since: str | None = Field(
        default=None, description="mode replay: the earliest event time (ISO 8601). Left out: from the beginning."
    )
    until: str | None = Field(
        default=None, description="mode replay: the first event time that is left out. Left out: to the end."
    )
    advance_to: str | None = Field(
        default=None,
        description="ISO 8601 time, such as 2026-01-31T12:00:00Z: take event time as having reached this, so that what "
        "is due by then closes. Left out: events, and a silent stream's clock, advance it.",
    )

    with_consumers: bool = Field(
        default=False,
        description="mode full_refresh: make the jobs that read this job's tables anew too, in order; all go live in one step.",
    )

    def run_mode(self) -> RunMode:
        """What the run is asked for.

        Raises:
            KeyfoldError: fields do not go together, a replay lacks its branch, or a time is no ISO 8601 time.
        """
        if self.with_consumers and self.mode != "full_refresh":
            raise Misconfigured(
                "with_consumers goes with mode full_refresh: else consumers read what is new by themselves"
            )
        return parse_run_mode(
            self.mode, _FIELDS, branch=self.branch, since=self.since, until=self.until, advance_to=self.advance_to
        )

    def given(self) -> Mapping[str, Any]:
        """The job's own parameters that this run was given, as `build_job` takes them."""
        own = type(self).model_fields.keys() - KeyedRunConfig.model_fields.keys()
        values = {name: getattr(self, name) for name in own}
        return {
            name: value.value if isinstance(value, Enum) else value
            for name, value in values.items()
            if value is not None
        }


def config_for(template: JobTemplate) -> type[KeyedRunConfig]:
    """The run config of a job: its parameters beside `mode` and `advance_to`.

    A parameter that is the path of a file is left out: pages must name no path. Types that Dagster has no config for, such as durations, become text, which the job's own model reads and checks.
    """
    fields = {name: field for name, field in template.parameters.model_fields.items() if not is_path(field)}
    # A job's own parameter of such a name would take the place of the field in silence.
    if taken := sorted(fields.keys() & KeyedRunConfig.model_fields.keys()):
        raise Misconfigured(f"job {template.name}: {', '.join(taken)} cannot be a parameter, every run config has it")
    free = build_job(template).free_parameters
    given: dict[str, Any] = {name: (_type(name, field), _field(field, name in free)) for name, field in fields.items()}
    return create_model(f"{template.parameters.__name__}Config", __base__=KeyedRunConfig, **given)


def _type(name: str, field: FieldInfo) -> Any:
    kind = field.annotation
    if get_origin(kind) in (Union, UnionType):
        # Left out means None in a run config, whatever the parameter.
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is Literal:
        # Dagster takes an optional Enum, but no optional Literal.
        choices: Any = Enum(name, {str(choice): choice for choice in get_args(kind)})
        return choices | None
    return (kind if kind in (bool, int, float, str) else str) | None


def _field(field: FieldInfo, is_free: bool) -> Any:
    default = field.get_default(call_default_factory=True)
    return Field(
        default=None,
        description=f"{(field.description or '').rstrip('.')}. Left out: as the live generation was born, at first "
        f"`{parameter_text(default)}`."
        + ("" if is_free else " Another value than the live generation's needs mode full_refresh."),
    )
