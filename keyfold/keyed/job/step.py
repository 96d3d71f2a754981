"""Define the result of a step, and the types of step functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from keyfold.keyed.job.clock import Clock


@dataclass(frozen=True)
class Step:
    """The result of a step: the new `state`, or changes of it as `add` and `drop`; and rows for tables.

    Attributes:
        state: all rows of state to keep for the keys that were passed to the step. Rows that are left out are removed. Rows
            of other keys fail the run.
        output: rows for the job's main table.
        late: late events, for `late.<job>`.
        side: rows for the job's side outputs, by table name.
        add: in place of `state`: rows to add to those that their keys have. If keys have many rows and few are new, the
            others are not written again.
        drop: with `add` or alone: keys, in the columns of the job's key, whose rows are removed. Rows of such a key in `add`
            are then its only rows.

    Example:
        >>> still_open, ended = pl.DataFrame({"user": ["ann"]}), pl.DataFrame({"user": ["bob"], "clicks": [3]})
        >>> step = Step(state=still_open, output=ended, side={"long_sessions": ended.filter(pl.col("clicks") > 9)})
        >>> step.side["long_sessions"].height
        0

        Add one row to a state of a million rows, and remove all rows of another user.

        >>> step = Step(add=pl.DataFrame({"user": ["cat"]}), drop=ended.select("user"), output=ended)
    """

    state: pl.DataFrame = field(default_factory=pl.DataFrame)
    output: pl.DataFrame = field(default_factory=pl.DataFrame)
    late: pl.DataFrame | None = None
    side: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    add: pl.DataFrame | None = field(default=None, kw_only=True)
    drop: pl.DataFrame | None = field(default=None, kw_only=True)


StepFunction = Callable[[pl.DataFrame, Any, Clock], Step]
"""A job's step. Its events are a frame; for a job with several inputs, a mapping of frames."""

StepOfInputs = Callable[[pl.DataFrame, Mapping[str, pl.DataFrame], Clock], Step]
"""The step of a job with several inputs: it gets a frame of events for each input, by name."""
