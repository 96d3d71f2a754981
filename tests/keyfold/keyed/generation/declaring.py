"""How a job is declared with an argument, and with another value of it; see `declared_operators` and `declared_parts`."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl
import pyarrow as pa

from keyfold import KeyedJob, Stream, column, required

TIME = pa.timestamp("us", "UTC")
EVENT = pa.schema(
    [
        required("user", pa.string(), "Who"),
        required("at", TIME, "When"),
        required("sent", TIME, "When it was sent"),
        required("n", pa.int64(), "How many"),
        required("km", pa.float64(), "How far"),
        required("kind", pa.string(), "What"),
        column("tags", pa.list_(pa.string()), "Tags"),
    ]
)
RIDES = Stream("rides", EVENT, event_time="at")
OTHERS = Stream("others", EVENT, event_time="at")
KM, N, KIND = (pl.col(name) for name in ("km", "n", "kind"))

Kind = Literal["refresh", "move", "judge", "free", "not of a job"]


@dataclass(frozen=True)
class Changed:
    """Another value of an argument.

    Attributes:
        value: the value.
        also: other arguments that both jobs need then.
        along: other arguments that the other job needs besides.
        kind: what the change requires: a run refuses `refresh` and `move`; `judge` and `free` go on; `not of a job` is of a
            stream's ingest, which sees it itself, or of people, such as a description.
    """

    value: Any
    also: Mapping[str, Any] = field(default_factory=dict)
    along: Mapping[str, Any] = field(default_factory=dict)
    kind: Kind = "refresh"


@dataclass(frozen=True)
class Declared:
    """A function or class that declares, how a job is made with it, and another value of each of its arguments.

    Attributes:
        of: whose arguments they are, if not those of `call`.
    """

    call: Callable[..., Any]
    base: Mapping[str, Any]
    changes: Mapping[str, Changed]
    job: Callable[[Any], KeyedJob] = lambda made: made
    of: Callable[..., Any] | None = None

    def pair(self, argument: str) -> tuple[KeyedJob, KeyedJob]:
        """The job as it is, and with the other value of one argument."""
        changed = self.changes[argument]
        base = {**self.base, **changed.also}
        return self.job(self.call(**base)), self.job(self.call(**{**base, **changed.along, argument: changed.value}))

    @property
    def name(self) -> str:
        return (self.of or self.call).__name__

    @property
    def arguments(self) -> list[str]:
        """The names of all arguments that there are."""
        return list(inspect.signature(self.of or self.call).parameters)
