"""Define, parse and describe the parameters of jobs."""

import re
from collections.abc import Mapping
from datetime import timedelta
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.fields import FieldInfo

from keyfold.errors import Misconfigured, Unfit
from keyfold.stream import INGESTED_AT, Stream
from keyfold.times import FORMS, LONGEST, duration_text, parsed_duration

_PATH = "a path of this machine"

FilePath = Annotated[str, _PATH]
"""The path of a file. The command line and the environment may set it, and Dagster's run config may not: a web page must not
choose a path."""


def is_path(field: FieldInfo) -> bool:
    """Whether a parameter is a `FilePath`."""
    return _PATH in field.metadata


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

    @property
    def of_inputs(self) -> dict[str, Any]:
        """What inputs of the job take from its parameters (`Input.with_defaults`)."""
        return {"by_arrival": self.time == "arrival"}


Change = Literal["free", "migrate", "refresh"]


def parameter(default: Any = ..., *, change: Change = "refresh", **of: Any) -> Any:
    """Declare a parameter of a job: `pydantic.Field`, and what another value means for a generation.

    Args:
        default: its default.
        change: `free` if each run may set it, since no state and no row depends on it; `migrate` if a new value may apply to
            existing state, with `keyfold state move`; `refresh` if it needs a new generation.
        of: other arguments of `pydantic.Field`, such as `description`, `ge` and `le`.

    Example:
        >>> class Long(JobParameters):
        ...     threshold: Duration = parameter("1h", change="migrate", description="Visits longer than this are long")
        >>> changed_by(Long.model_fields, "migrate")
        frozenset({'threshold'})
    """
    if change not in get_args(Change):
        raise Misconfigured(f"parameter: change is {change!r}; it must be one of {', '.join(get_args(Change))}")
    return Field(default, json_schema_extra={_CHANGE: change}, validate_default=True, **of)


_CHANGE = "keyfold.change"


OF_THE_ENGINE = frozenset({"key_groups", "delay", "idle_timeout"})
"""Parameters that are settings of the engine; state can be moved to any of their values."""


def changed_by(fields: Mapping[str, FieldInfo], change: str) -> frozenset[str]:
    """Return the parameters of which another value needs this change (`parameter`)."""
    return frozenset(
        name
        for name, field in fields.items()
        if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get(_CHANGE) == change
    )


def _parse_duration(value: Any) -> Any:
    if isinstance(value, str):
        parsed = parsed_duration(value)
        if parsed is None and not _ISO.match(value):
            raise Unfit(f"{FORMS}, or ISO 8601 (PT30M)")
        return value if parsed is None else parsed
    # Pydantic reads the other forms: ISO 8601, and seconds as a number.
    return value


_ISO = re.compile(r"\s*[+-]?P|\s*[+-]?[\d.:]+\s*$")

Duration = Annotated[timedelta, BeforeValidator(_parse_duration), Field(gt=timedelta(0), le=LONGEST)]
"""A length of time: `90s`, `30m`, `1.5h`, `1d`, ISO 8601 (`PT30M`), or a number of seconds; 365,000 days at most."""


Delay = Annotated[timedelta, BeforeValidator(_parse_duration), Field(ge=timedelta(0), le=LONGEST)]
"""A length of time as `Duration`, or `0s`."""


class EventTimeParameters(JobParameters):
    """Base of the parameters of jobs that go by event time, on events that come out of order.

    Example:
        >>> class Gap(EventTimeParameters):
        ...     gap: Duration = timedelta(minutes=30)
        >>> Gap(delay="5m").delay
        datetime.timedelta(seconds=300)
    """

    delay: Delay = Field(timedelta(minutes=10), description="How far out of order events may come")
    idle_timeout: Duration = Field(
        timedelta(hours=2), description="Processing time without new events after which runs advance event time"
    )

    @property
    def of_inputs(self) -> dict[str, Any]:
        """What inputs of the job take from its parameters (`Input.with_defaults`)."""
        return {**super().of_inputs, "delay": self.delay, "idle_timeout": self.idle_timeout}


class WindowShape(NamedTuple):
    """Windows of event time: their length, and the time from the start of one to the start of the next.

    Attributes:
        length: how long a window is.
        every: the time from the start of one window to the start of the next.

    Example:
        >>> WindowShape(timedelta(hours=1), timedelta(minutes=15)).overlaps
        True
    """

    length: timedelta
    every: timedelta

    @property
    def overlaps(self) -> bool:
        """Whether an event is in several windows."""
        return self.every < self.length

    def __str__(self) -> str:
        return (
            f"{duration_text(self.length)} every {duration_text(self.every)}"
            if self.overlaps
            else duration_text(self.length)
        )


def _parse_window(value: Any) -> Any:
    if isinstance(value, WindowShape):
        return value
    if isinstance(value, timedelta):
        value = duration_text(value)
    forms = "write a length, `1h`, or a length and how often a window begins, `1h every 15m`"
    parts = re.split(r"\s+every\s+", value) if isinstance(value, str) else []
    lengths = [length for part in parts if (length := parsed_duration(part)) is not None]
    if len(lengths) not in (1, 2) or len(lengths) != len(parts):
        raise Unfit(forms)
    length, every = lengths[0], lengths[-1]
    if not every:
        raise Unfit(f"a window and the time from one to the next must be positive; {forms}")
    if length > LONGEST:
        raise Unfit(f"a window is {LONGEST.days:,} days long at most")
    if every > length:
        raise Unfit(
            f"windows of {duration_text(length)} that begin every {duration_text(every)} leave gaps, whose events would be in none; let them "
            f"begin every {duration_text(length)} at most"
        )
    if length // every > _MOST_WINDOWS:
        raise Unfit(
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


def describe_parameters(fields: Mapping[str, FieldInfo]) -> list[ParameterDescription]:
    """Describe parameters, in the order of their declaration."""
    described = []
    for name, field in fields.items():
        default = field.get_default(call_default_factory=True)
        text = None if default is None else parameter_text(default)
        described.append(ParameterDescription(name, _type_text(field), text, field.description or ""))
    return described


def parameter_text(value: Any) -> str:
    """Format a value of a parameter as text that can be parsed."""
    if isinstance(value, timedelta):
        return duration_text(value)
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
        return " | ".join(_kind_text(member) for member in get_args(kind) if member is not NoneType)
    return _kind_text(kind)


def _kind_text(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "names"
    return _TYPE_TEXTS.get(kind) or getattr(kind, "__name__", str(kind))
