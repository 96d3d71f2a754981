"""Implement `Model.predict_as_of` for any model by alternating rounds of `learn` and `predict`."""

from typing import Protocol

import numpy as np
import polars as pl

from spark_jobs.jobs.anomaly_predictions.models.runs import key_runs


class LearnsAndPredicts(Protocol):
    """The methods of a model that rounds need."""

    def learn(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame: ...

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame: ...


def predict_by_rounds(
    model: LearnsAndPredicts, models: pl.DataFrame, events: pl.DataFrame, learned: pl.Series
) -> pl.DataFrame:
    """Predict each event by a model that has learned the first `learned` events of its key; see `Model.predict_as_of`.

    A step is a part of a key's events with one value of `learned`. Each round learns what the next step of every key adds, and
    predicts the events of that step. So there are as many rounds as the key with the most steps has.
    """
    if not events.height:
        return model.predict(models, events)
    runs = key_runs(models, events)
    wanted = learned.to_numpy()
    is_first = runs.rank == 0
    is_step = is_first | np.append(True, wanted[1:] != wanted[:-1])
    step = np.cumsum(is_step)
    step -= step[runs.starts][runs.run]
    learns_at = _first_step_that_knows(runs.rank, wanted, step, runs.starts, runs.counts)
    rows = np.arange(events.height)
    parts, places = [], []
    for number in range(int(step.max()) + 1):
        learns, predicts = rows[learns_at == number], rows[step == number]
        if len(learns):
            models = model.learn(models, events[learns])
        parts.append(model.predict(models, events[predicts]))
        places.append(predicts)
    return pl.concat(parts)[np.argsort(np.concatenate(places))]


def _first_step_that_knows(
    rank: np.ndarray, wanted: np.ndarray, step: np.ndarray, starts: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Return the first step of its key in which each event is learned; the number after the last step if it never is."""
    run = np.repeat(np.arange(len(starts)), counts)
    # `learned` never decreases within a key, so run and `learned` combine into one sorted number for a single search.
    width = int(max(rank.max(initial=0), wanted.max(initial=0))) + 2
    place = np.searchsorted(run * width + wanted, run * width + rank, side="right")
    ends = (starts + counts)[run]
    return np.where(place < ends, step[np.minimum(place, len(step) - 1)], step.max() + 1)
