"""What a step gives back, and the types of steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from keyfold.keyed.job.clock import Clock


@dataclass(frozen=True)
class Step:
    """What a step gives back: `state`, or what changes of it as `add` and `drop`; and rows for tables.

    Attributes:
        state: every row to keep of the keys that the step was given, in the job's state schema. Rows of theirs that are left
            out are forgotten; other keys stay as they are, and a row of one fails the run.
        output: rows for the job's own table.
        late: events that came after their key had closed, for `late.<job>`.
        side: rows for the job's side outputs, by table name.
        add: in place of `state`: rows to keep besides those that their keys have. Where keys have many rows and few are
            new, those that stay are not written again.
        drop: with `add` or alone: the keys, in the columns of the job's key, of which all rows that the step was given are
            forgotten. Rows of such a key in `add` are then all that it has.

    Example:
        >>> still_open, ended = pl.DataFrame({"user": ["ann"]}), pl.DataFrame({"user": ["bob"], "clicks": [3]})
        >>> step = Step(state=still_open, output=ended, side={"long_sessions": ended.filter(pl.col("clicks") > 9)})
        >>> step.side["long_sessions"].height
        0

        Of a million rows one is new, and all of one user's are forgotten.

        >>> step = Step(add=pl.DataFrame({"user": ["cat"]}), drop=ended.select("user"), output=ended)
    """

    state: pl.DataFrame = field(default_factory=pl.DataFrame)
    output: pl.DataFrame = field(default_factory=pl.DataFrame)
    late: pl.DataFrame | None = None
    side: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    add: pl.DataFrame | None = field(default=None, kw_only=True)
    drop: pl.DataFrame | None = field(default=None, kw_only=True)


StepFunction = Callable[[pl.DataFrame, Any, Clock], Step]
"""A job's step. Its events are a frame, or, of a job with several inputs, a frame an input."""

StepOfInputs = Callable[[pl.DataFrame, Mapping[str, pl.DataFrame], Clock], Step]
"""The step of a job with several inputs: it gets a frame of events an input, by name."""
