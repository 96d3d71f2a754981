"""Record the calls of a job's step, such as those of a batch whose keys time out between their events."""

from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple

import polars as pl

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock, Step


class Fired(NamedTuple):
    """A timer that was due in a call: its column of state, and its time."""

    timer: str
    at: Any


def recording(job: KeyedJob) -> tuple[KeyedJob, list[Fired]]:
    """Return a job that does the same, and a list that its calls add the timers to that are due in them."""
    fired: list[Fired] = []
    function, recorded = job.function, copy(job)

    def record(state: pl.DataFrame, events: pl.DataFrame | Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        for timer, now in ((DEADLINE, clock.watermark), (PROCESSING_DEADLINE, clock.processing_time)):
            if timer in state.columns:
                fired.extend(Fired(timer, at) for at in state[timer].unique().sort() if at is not None and at <= now)
        return function(state, events, clock)

    # Not `replace`, which would make the job anew: the step of an operator says how it is called.
    object.__setattr__(recorded, "function", record)
    return recorded, fired
