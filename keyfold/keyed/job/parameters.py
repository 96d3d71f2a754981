"""Define, parse and describe the parameters of jobs, and build jobs with them."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError
from pydantic.fields import FieldInfo

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.template import JobTemplate
from keyfold.stream import INGESTED_AT, Stream

_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


_PATH = "a path of this machine"

FilePath = Annotated[str, _PATH]
"""The path of a file. The command line and the environment may set it, and Dagster's run config may not: a web page must not
choose a path."""


def is_path(field: FieldInfo) -> bool:
    """Whether a parameter is a `FilePath`."""
    return _PATH in field.metadata


_SETTINGS = ("watermark_delay", "idle_after", "key_groups")


class JobParameters(BaseModel):
    """Base class of the parameters of jobs. Unknown parameters are refused, and values are immutable.

    Example:
        >>> class Gap(JobParameters):
        ...     gap: Duration = timedelta(minutes=30)
        >>> Gap(gap="90s").gap
        datetime.timedelta(seconds=90)
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    time: Literal["event", "arrival"] = Field(
        "event",
        description="Which time the job goes by. event: the events' own, as their stream has it. arrival: when ingest admitted "
        "them (ingested_at), so that no event comes late, however old",
    )
    key_groups: int = Field(64, ge=1, le=32_768, description="Into how many parts the keys are split")

    def time_of(self, stream: Stream) -> str:
        """Return the column of a stream's event table with the times that the job goes by."""
        return INGESTED_AT if self.time == "arrival" else stream.event_time

    def settings(self) -> dict[str, Any]:
        """Return the arguments of `KeyedJob` that are parameters themselves, and `parameters` as a generation records it.

        Example:
            >>> JobParameters(key_groups=8).settings()
            {'key_groups': 8, 'parameters': {'time': 'event', 'key_groups': 8}}
        """
        plain = {name: getattr(self, name) for name in _SETTINGS if name in type(self).model_fields}
        return {**plain, "parameters": self.model_dump(mode="json")}


def _parse_duration(value: Any) -> Any:
    if isinstance(value, str) and (found := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|d)\s*", value)):
        try:
            return timedelta(**{_UNITS[found[2]]: float(found[1])})
        except OverflowError:
            raise ValueError(f"longer than any may be, which is {_LONGEST.days:,} days") from None
    # Pydantic reads the other forms: ISO 8601, and seconds as a number.
    return value


_LONGEST = timedelta(days=365_000)
"""A thousand years: added to any time, the sum fits into 64 bits of microseconds."""

Duration = Annotated[timedelta, BeforeValidator(_parse_duration), Field(gt=timedelta(0), le=_LONGEST)]
"""A length of time: `90s`, `30m`, `1.5h`, `1d`, ISO 8601 (`PT30M`), or a number of seconds; 365,000 days at most."""


Delay = Annotated[timedelta, BeforeValidator(_parse_duration), Field(ge=timedelta(0), le=_LONGEST)]
"""A length of time as `Duration`, or `0s`."""


class EventTimeParameters(JobParameters):
    """Base of the parameters of jobs that go by event time, on events that come out of order.

    Example:
        >>> class Gap(EventTimeParameters):
        ...     gap: Duration = timedelta(minutes=30)
        >>> sorted(Gap(watermark_delay="5m").settings())
        ['idle_after', 'key_groups', 'parameters', 'watermark_delay']
    """

    watermark_delay: Delay = Field(timedelta(minutes=10), description="How far out of order events may come")
    idle_after: Duration = Field(
        timedelta(hours=2), description="Processing time without new events after which runs advance event time"
    )


class WindowShape(NamedTuple):
    """Windows of event time: their length, and the time from the start of one to the start of the next."""

    length: timedelta
    every: timedelta

    @property
    def overlaps(self) -> bool:
        """Whether an event is in several windows."""
        return self.every < self.length

    def __str__(self) -> str:
        return f"{_text(self.length)} every {_text(self.every)}" if self.overlaps else _text(self.length)


def _text(duration: timedelta) -> str:
    """Format a duration so that it can be parsed: in the largest unit of which it is a whole number."""
    for unit, name in (("d", "days"), ("h", "hours"), ("m", "minutes")):
        if duration % timedelta(**{name: 1}) == timedelta(0):
            return f"{duration // timedelta(**{name: 1})}{unit}"
    return f"{duration / timedelta(seconds=1):f}".rstrip("0").rstrip(".") + "s"


def _parse_window(value: Any) -> Any:
    if isinstance(value, WindowShape):
        return value
    if isinstance(value, timedelta):
        value = _text(value)
    how = "write a length, `1h`, or a length and how often a window begins, `1h every 15m`"
    lengths = [_parse_duration(part) for part in re.split(r"\s+every\s+", value)] if isinstance(value, str) else []
    if len(lengths) not in (1, 2) or not all(isinstance(one, timedelta) for one in lengths):
        raise ValueError(how)
    length, every = lengths[0], lengths[-1]
    if not every:
        raise ValueError(f"a window is longer than nothing, and so is the time from one to the next; {how}")
    if length > _LONGEST:
        raise ValueError(f"a window is {_LONGEST.days:,} days long at most")
    if every > length:
        raise ValueError(
            f"windows of {_text(length)} that begin every {_text(every)} leave gaps, whose events would be in none; let them "
            f"begin every {_text(length)} at most"
        )
    if length // every > _MOST_WINDOWS:
        raise ValueError(
            f"each event would be in {length // every:,} windows, a row in each; it may be in {_MOST_WINDOWS} at most"
        )
    return WindowShape(length, every)


_MOST_WINDOWS = 1000

Window = Annotated[WindowShape, BeforeValidator(_parse_window), PlainSerializer(str, return_type=str)]
"""Windows of event time, aligned to 1970 UTC: `1h`, one after the other, or `1h every 15m`, which overlap."""


def _parse_names(value: Any) -> Any:
    return tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_parse_names), Field(min_length=1)]
"""Names of columns: a list, or `pressure,temp`."""


class ParameterDescription(NamedTuple):
    """The documentation of a parameter.

    Attributes:
        name: its name, as `--param` takes it.
        type: its type: `duration`, `whole number`, `event | arrival`, …
        default: its default, as text that can be parsed; None if it has none.
        description: its meaning.
    """

    name: str
    type: str
    default: str | None
    description: str


def describe_parameters(template: JobTemplate) -> list[ParameterDescription]:
    """Describe the parameters of a job, in the order of their declaration."""
    described = []
    for name, field in template.parameters.model_fields.items():
        default = field.get_default(call_default_factory=True)
        text = None if default is None else parameter_text(default)
        described.append(ParameterDescription(name, _type_text(field), text, field.description or ""))
    return described


def parameter_text(value: Any) -> str:
    """Format a value of a parameter as text that can be parsed."""
    if isinstance(value, timedelta):
        return _text(value)
    if isinstance(value, tuple) and not isinstance(value, WindowShape):
        return ",".join(map(str, value))
    return str(value)


_TYPE_TEXTS = {
    bool: "true or false",
    float: "number",
    int: "whole number",
    str: "text",
    timedelta: "duration",
    WindowShape: "window",
}


def _type_text(field: FieldInfo) -> str:
    if is_path(field):
        return "file"
    kind = field.annotation
    if get_origin(kind) in (Union, UnionType):  # left out means None
        return " | ".join(_kind_text(one) for one in get_args(kind) if one is not NoneType)
    return _kind_text(kind)


def _kind_text(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "names"
    return _TYPE_TEXTS.get(kind) or getattr(kind, "__name__", str(kind))


@cache
def typical_job(template: JobTemplate) -> KeyedJob:
    """Return the job with the default parameters; it is built once.

    Raises:
        Misconfigured: as `build_job`.
    """
    return build_job(template)


def build_job(
    template: JobTemplate, given: Mapping[str, Any] | None = None, born_with: Mapping[str, Any] | None = None
) -> KeyedJob:
    """Build a job with the given parameters; others are those of its live generation (`born_with`), or the defaults.

    Raises:
        Misconfigured: a parameter is unknown or invalid; names it, and the values that it takes.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> build_job(RIDE_SUMMARIES, {"key_groups": 8}).key_groups
        8
    """
    try:
        parameters = template.parameters.model_validate({**(born_with or {}), **(given or {})})
        return _as_born(_by_time(template.build(parameters), parameters), parameters, born_with)
    except ValidationError as error:
        known = ", ".join(template.parameters.model_fields)
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}={fault['input']!r}: {fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors()
        )
        raise Misconfigured(f"job {template.name}: {faults} (parameters: {known})") from None


def _by_time(job: KeyedJob, parameters: BaseModel) -> KeyedJob:
    """Apply the parameter `time` to a job, so that the functions that build jobs need not."""
    if getattr(parameters, "time", None) == "arrival":
        # A job whose event time is `ingested_at` already goes by arrival.
        if job.inputs:
            return _inputs_by_arrival(job)
        return job if job.event_time == INGESTED_AT else replace(job, time_from=INGESTED_AT)
    return job


def _inputs_by_arrival(job: KeyedJob) -> KeyedJob:
    """Make inputs that are streams go by arrival. Rows of other jobs' tables have no arrival, and keep their times."""
    if not job.streams:
        raise Misconfigured(
            f"job {job.name}: time=arrival, and it reads {', '.join(job.producers)} alone, whose rows have no arrival; give "
            "time=arrival to the job that reads the stream"
        )
    inputs = {
        name: one if one.producer or one.event_time == INGESTED_AT else replace(one, time_from=INGESTED_AT)
        for name, one in job.inputs.items()
    }
    return replace(job, inputs=inputs)


def _as_born(job: KeyedJob, parameters: BaseModel, born_with: Mapping[str, Any] | None) -> KeyedJob:
    """Leave out parameters that the generation does not know and that have their default, so that it can be continued."""
    if born_with is None:
        return job
    defaults = type(parameters).model_fields
    unsaid = {
        name for name in defaults if name not in born_with and getattr(parameters, name) == defaults[name].default
    }
    return replace(job, parameters={name: value for name, value in job.parameters.items() if name not in unsaid})
