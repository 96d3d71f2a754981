"""Find the events of a batch that only wait (`Waiting`), for which the step is not called."""

import numpy as np
import polars as pl

from keyfold.keyed.calling.slots import SLOT, Slots, are_among
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import Clock
from keyfold.keyed.rows.codec import conform, polars_schema

_FEW = 4
"""Number of events of a key in a batch that may always wait."""


def waiting_events(
    job: KeyedJob,
    state: pl.DataFrame,
    events: pl.DataFrame,
    slots: np.ndarray,
    due: Slots,
    clock: Clock,
    rows_a_key: float,
) -> np.ndarray:
    """Return for each event whether it only waits (`job.waiting`); of each slot all events wait, or none does.

    Args:
        state: the rows of the events' keys that do not wait, with `SLOT`, sorted by it.
        events: the events, sorted by slot.
        slots: slots of the events.
        due: slots with a due timer.
        rows_a_key: estimated number of waiting rows per key.
    """
    waits = np.zeros(events.height, bool)
    if job.waiting is None or not state.height or not events.height:
        return waits
    begins = np.flatnonzero(np.concatenate([[True], slots[1:] != slots[:-1]]))
    counts = np.diff(begins, append=events.height)
    kept = state[SLOT].to_numpy()
    position = np.searchsorted(kept, slots[begins])
    has_one_row = np.searchsorted(kept, slots[begins], side="right") - position == 1
    # If a key has more new events than waiting ones, call the step now: storing them first would cost more.
    is_asked = np.repeat(has_one_row & (counts <= max(_FEW, rows_a_key)) & ~are_among(slots[begins], due), counts)
    # `call_step` routes late events.
    is_asked &= (events[job.event_time] > clock.late_watermark).to_numpy()
    if not is_asked.any():
        return waits
    asked, row = events, state.drop(SLOT)
    # Often each key has one event and one row, which are in the same order already.
    if not is_asked.all() or not events.height == state.height == begins.size:
        asked, row = events.filter(is_asked), row[np.repeat(position, counts)[is_asked]]
    answer = job.waiting.events(row, asked, clock)
    for name in job.key:
        # The row may be of another key with the same slot.
        answer &= row[name].cast(asked[name].dtype) == asked[name]
    waits[is_asked] = answer.fill_null(value=False).to_numpy()
    # All events of a slot, or none: the step needs all of them if it is called for one.
    return np.repeat(np.logical_and.reduceat(waits, begins), counts)


def waiting_rows(job: KeyedJob, events: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of state for waiting events, in their order."""
    assert job.waiting is not None  # noqa: S101 - the job has waiting events
    rows, kinds = job.waiting.kept_as(events), polars_schema(job.state)
    left_out = [pl.lit(None, kind).alias(name) for name, kind in kinds.items() if name not in rows.columns]
    return conform(rows.with_columns(left_out), job.state, "rows that wait")
