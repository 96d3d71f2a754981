"""The events of a batch that only wait, by the job's own word (`Waiting`): the step is not called with them."""

import numpy as np
import polars as pl

from keyfold.keyed.calling.slots import SLOT, Slots, are_among
from keyfold.keyed.job.clock import Clock
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import conform, polars_schema

_FEW = 4
"""So many events of a key in a batch may wait in any case."""


def waiting_events(
    job: KeyedJob,
    state: pl.DataFrame,
    events: pl.DataFrame,
    slots: np.ndarray,
    due: Slots,
    clock: Clock,
    rows_a_key: float,
) -> np.ndarray:
    """Which events only wait (`job.waiting`), as truth values: of each slot all or none.

    Args:
        job: whose events they are.
        state: the rows of their keys that do not wait, with `SLOT`, sorted by it.
        events: sorted by slot.
        slots: of the events.
        due: slots of keys that are due.
        clock: what time it is.
        rows_a_key: about how many rows of a key wait.
    """
    waits = np.zeros(events.height, bool)
    if job.waiting is None or not state.height or not events.height:
        return waits
    begins = np.flatnonzero(np.concatenate([[True], slots[1:] != slots[:-1]]))
    counts = np.diff(begins, append=events.height)
    kept = state[SLOT].to_numpy()
    # Where more come than wait, the step is called at once: to keep them first would cost more.
    found = np.searchsorted(kept, slots[begins])
    is_one = np.searchsorted(kept, slots[begins], side="right") - found == 1
    is_asked = np.repeat(is_one & (counts <= max(_FEW, rows_a_key)) & ~are_among(slots[begins], due), counts)
    is_asked &= (events[job.event_time] > clock.late_watermark).to_numpy()
    if not is_asked.any():
        return waits
    asked, row = events, state.drop(SLOT)
    # Often each key has one event and one row, which lie side by side as they are.
    if not is_asked.all() or not events.height == state.height == begins.size:
        asked, row = events.filter(is_asked), row[np.repeat(found, counts)[is_asked]]
    answer = job.waiting.events(row, asked, clock)
    for name in job.key:
        # Another key of the same slot is another one.
        answer &= row[name].cast(asked[name].dtype) == asked[name]
    waits[is_asked] = answer.fill_null(value=False).to_numpy()
    return np.repeat(np.logical_and.reduceat(waits, begins), counts)


def waiting_rows(job: KeyedJob, events: pl.DataFrame) -> pl.DataFrame:
    """The rows of state that events are kept as while they wait, row by row."""
    assert job.waiting is not None  # noqa: S101 - some wait
    rows, kinds = job.waiting.kept_as(events), polars_schema(job.state)
    left_out = [pl.lit(None, kind).alias(name) for name, kind in kinds.items() if name not in rows.columns]
    return conform(rows.with_columns(left_out), job.state, "rows that wait")
