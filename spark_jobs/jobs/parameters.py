"""Parameters of jobs: typed, checked when they are given, recorded with the generation that they made."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from spark_jobs.errors import KeyfoldError
from spark_jobs.keyed.contract import JobTemplate, KeyedJob

_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


class JobParameters(BaseModel):
    """What the parameters of every job share: unknown ones are refused, and they do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key_groups: int = Field(64, ge=1, le=32_768, description="Into how many parts the keys are split")


def _parse_duration(value: Any) -> Any:
    if isinstance(value, str) and (found := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|d)\s*", value)):
        return timedelta(**{_UNITS[found[2]]: float(found[1])})
    return value


Duration = Annotated[timedelta, BeforeValidator(_parse_duration), Field(gt=timedelta(0))]
"""A length of time: `90s`, `30m`, `1.5h`, `1d`, ISO 8601 (`PT30M`), or a number of seconds."""


def _parse_names(value: Any) -> Any:
    return tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_parse_names), Field(min_length=1)]
"""Names of columns: a list, or `pressure,temp`."""


def build_job(
    template: JobTemplate, given: Mapping[str, Any] | None = None, born_with: Mapping[str, Any] | None = None
) -> KeyedJob:
    """Build a job of the parameters given, then those its live generation was born with, then the defaults.

    Raises:
        KeyfoldError: a parameter is unknown or has a value that it cannot have; names it and says what it takes.
    """
    try:
        return template.build(template.parameters.model_validate({**(born_with or {}), **(given or {})}))
    except ValidationError as error:
        known = ", ".join(template.parameters.model_fields)
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}={fault['input']!r}: {fault['msg']}" for fault in error.errors()
        )
        raise KeyfoldError(f"job {template.name}: {faults} (parameters: {known})") from None
