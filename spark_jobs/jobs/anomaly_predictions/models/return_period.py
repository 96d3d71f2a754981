"""The return period: how seldom a metric does what it does now, given its days before. The model for alarms.

1. **Surprise.** How far a value lies outside of what was usual at this time of day (`time_of_day`), in the unit of the
   metric: no scale is fitted.
2. **Rarity.** How many days pass between surprises as large (`rarity`): the score, as a share. A value that comes once
   in `HALF_AT` days has the score one half. Only an event rarer than all of the day and a half before it has a score
   at all.

There is no score until there was a day to compare with. `docs/anomaly-detection.md` has what led to this.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from spark_jobs.jobs.anomaly_predictions.models.rarity import History, Largest
from spark_jobs.jobs.anomaly_predictions.models.recursion import Floats, Integers
from spark_jobs.jobs.anomaly_predictions.models.rounds import predict_by_rounds
from spark_jobs.jobs.anomaly_predictions.models.runs import KeyRuns, key_runs
from spark_jobs.jobs.anomaly_predictions.models.scoring import WIDEST
from spark_jobs.jobs.anomaly_predictions.models.time_of_day import (
    NEAREST_CELL,
    Cells,
    Company,
    cell_columns,
    cells_of,
    compare,
    event_cells,
    with_events,
)

HALF_AT = 3.5
"""Days between two surprises as large at which the score is one half."""
_ROUNDING = 1e-9
"""Share of a value below which a surprise is rounding."""

_LISTS = {
    "cell": pl.List(pl.Int32),
    "cell_low": pl.List(pl.Float64),
    "cell_high": pl.List(pl.Float64),
    "single": pl.List(pl.Float64),
    "single_time": pl.List(pl.Int64),
    "lasting": pl.List(pl.Float64),
    "lasting_time": pl.List(pl.Int64),
    "last": pl.List(pl.Float64),
    "peak": pl.List(pl.Float64),
    "peak_time": pl.List(pl.Int64),
}


@dataclass(frozen=True)
class ReturnPeriod:
    """The model `return_period`. Its constants stand in its modules: they were found together."""

    name = "return_period"
    version = 1
    threshold = 0.5
    half_at = HALF_AT
    state = pa.schema(
        [
            pa.field("began", pa.int64()),
            pa.field("cell", pa.list_(pa.int32())),
            pa.field("cell_low", pa.list_(pa.float64())),
            pa.field("cell_high", pa.list_(pa.float64())),
            pa.field("single", pa.list_(pa.float64())),
            pa.field("single_time", pa.list_(pa.int64())),
            pa.field("lasting", pa.list_(pa.float64())),
            pa.field("lasting_time", pa.list_(pa.int64())),
            pa.field("last", pa.list_(pa.float64())),
            pa.field("peak", pa.list_(pa.float64())),
            pa.field("peak_time", pa.list_(pa.int64())),
        ]
    )
    """Time of the first event (microseconds); ranges of the last week's cells; what `rarity.History` remembers."""

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        lists = (pl.lit([], dtype=kind).alias(name) for name, kind in _LISTS.items())
        return pl.DataFrame({"key": keys}).with_columns(pl.lit(None, pl.Int64).alias("began"), *lists)

    def learn(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        return self.predict_then_learn(models, events)[1]

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        seen = _Seen.of(models, events)
        company = compare(cells_of(models), seen.numbers, seen.values)
        return _predictions(company, seen.rarities(company, np.zeros_like(seen.numbers))[0])

    def predict_then_learn(self, models: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        seen = _Seen.of(models, events)
        cells = with_events(cells_of(models), seen.numbers, seen.values)
        company = compare(cells, seen.numbers, seen.values)
        rarities, histories = seen.rarities(company, seen.runs.rank)
        return _predictions(company, rarities), seen.learned(cells, histories)

    def predict_as_of(self, models: pl.DataFrame, events: pl.DataFrame, learned: pl.Series) -> pl.DataFrame:
        seen = _Seen.of(models, events)
        if (seen.compared_with() > learned.to_numpy()).any():
            return predict_by_rounds(self, models, events, learned)
        company = compare(with_events(cells_of(models), seen.numbers, seen.values), seen.numbers, seen.values)
        return _predictions(company, seen.rarities(company, learned.to_numpy())[0])


@dataclass(frozen=True)
class _Seen:
    """Events as arrays, beside their keys' models.

    Attributes:
        values, times, numbers: of each event its value, its time in microseconds and the number of its cell.
        began: of each run, the time of its key's first event.
    """

    models: pl.DataFrame
    runs: KeyRuns
    values: Floats
    times: Integers
    numbers: Integers
    began: list[int]

    @staticmethod
    def of(models: pl.DataFrame, events: pl.DataFrame) -> "_Seen":
        runs = key_runs(models, events)
        times = events["event_time"].to_physical().to_numpy()
        known, first = models["began"].gather(runs.model), pl.Series(times[runs.starts], dtype=pl.Int64)
        began = known.zip_with(known.is_not_null(), first)
        values = np.clip(events["value"].to_numpy(), -WIDEST, WIDEST)
        return _Seen(models, runs, values, times, event_cells(runs, times), began.to_list())

    def compared_with(self) -> Integers:
        """Of each event how many events of its key before it here may lie in cells that it is compared with."""
        newest = np.searchsorted(self.numbers, self.numbers - NEAREST_CELL, side="right")
        return newest - self.runs.starts[self.runs.run]

    def rarities(self, company: Company, learned: Integers) -> tuple[Floats, list[History]]:
        """How rare each event is once its key's first `learned` events here are learned, 0 for no news.

        Besides, the history of each run once all its events are learned.
        """
        is_surprise = company.distance > _ROUNDING * np.abs(self.values)
        sizes = np.where(is_surprise, company.distance, 0.0)
        rarities, histories = [], []
        for run, (start, count) in enumerate(zip(self.runs.starts.tolist(), self.runs.counts.tolist(), strict=True)):
            part = slice(start, start + count)
            history = _history(self.models.row(int(self.runs.model[run]), named=True))
            news = _news(history, self.began[run], self.times[part], sizes[part], learned[part])
            rarities.extend(news)
            histories.append(history)
        return np.array(rarities, dtype=np.float64), histories

    def learned(self, cells: Cells, histories: list[History]) -> pl.DataFrame:
        """The models once they have learned the events, given all cells and the history of each run after them."""
        began = self.models["began"].scatter(self.runs.model, self.began)
        after = [_remembered(history) for history in histories]
        lists = []
        for name in _HISTORY:
            column = self.models[name].to_list()
            for model, remembered in zip(self.runs.model.tolist(), after, strict=True):
                column[model] = remembered[name]
            lists.append(pl.Series(name, column, dtype=_LISTS[name]))
        return self.models.with_columns(began, *cell_columns(cells, self.models.height), *lists)


def _news(history: History, began: int, times: Integers, sizes: Floats, learned: Integers) -> Iterator[float]:
    """How rare each event is, 0 where it is no news; the history learns all events on the way, each when it is time."""
    events, wanted = list(zip(times.tolist(), sizes.tolist(), strict=True)), learned.tolist()
    reached, rarity = 0, 0.0
    for row, ((time, size), until) in enumerate(zip(events, wanted, strict=True)):
        while reached < until:
            past_time, past_size = events[reached]
            # Asked a moment ago by what is known now: the answer is still at hand.
            if not reached == row - 1 == wanted[reached]:
                rarity = history.rarity(past_size, past_time, max(past_time - began, 0))
            history.learn(past_size, past_time, rarity)
            reached += 1
        rarity = history.rarity(size, time, max(time - began, 0))
        yield rarity if rarity and history.is_news(rarity, time) else 0.0
    for past_time, past_size in events[reached:]:
        history.learn(past_size, past_time, history.rarity(past_size, past_time, max(past_time - began, 0)))


_HISTORY = ("single", "single_time", "lasting", "lasting_time", "last", "peak", "peak_time")


def _history(model: dict[str, Any]) -> History:
    """What a model remembers, by its columns."""
    return History(
        single=Largest(model["single"], model["single_time"]),
        lasting=Largest(model["lasting"], model["lasting_time"]),
        last=model["last"],
        peaks=list(zip(model["peak"], model["peak_time"], strict=True)),
    )


def _remembered(history: History) -> dict[str, list[float] | list[int]]:
    """The columns of a history."""
    return {
        "single": history.single.sizes,
        "single_time": history.single.times,
        "lasting": history.lasting.sizes,
        "lasting_time": history.lasting.times,
        "last": history.last,
        "peak": [peak for peak, _ in history.peaks],
        "peak_time": [time for _, time in history.peaks],
    }


def _predictions(company: Company, rarity: Floats) -> pl.DataFrame:
    known = ~np.isnan(company.low)
    middle = company.low + (company.high - company.low) / 2
    frame = pl.DataFrame(
        {
            "expected": np.clip(middle, company.low, company.high),
            "low": company.low,
            "high": company.high,
            "score": np.where(known, rarity / (rarity + HALF_AT), 0.0),
        }
    )
    return frame.with_columns(pl.col("expected", "low", "high").fill_nan(None))
