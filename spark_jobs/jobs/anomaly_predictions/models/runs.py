"""Find each key's run of events in a frame that is sorted by key."""

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class KeyRuns(NamedTuple):
    """Runs of events, one per key.

    Attributes:
        starts: the row of the first event, per run.
        counts: the number of events, per run.
        model: the row of the key's model, per run.
        run: the number of the run, per event.
        rank: the number of events of the key before it, per event.
    """

    starts: Integers
    counts: Integers
    model: Integers
    run: Integers
    rank: Integers


def key_runs(models: pl.DataFrame, events: pl.DataFrame) -> KeyRuns:
    """Find the runs of `events` (sorted by key) and the model of each."""
    lengths = events["key"].rle().struct.unnest()
    counts = lengths["len"].to_numpy().astype(np.int64)
    starts = np.cumsum(counts) - counts
    rows = models.select("key").with_row_index("row")
    model = lengths.select(key="value").join(rows, on="key", how="left", maintain_order="left")["row"]
    if model.null_count() or lengths["value"].n_unique() < lengths.height:
        raise ValueError("every key of the events needs one model, and events must be sorted by key")
    run = np.repeat(np.arange(len(counts)), counts)
    return KeyRuns(starts, counts, model.to_numpy().astype(np.int64), run, np.arange(events.height) - starts[run])
