"""Score how rare an event is by its return period in days, combined from two kinds of detectors. Meant for alarms.

1. **Surprises.** How far an event is outside of the bands of its time of day, in four views (`daily_bands`); how rare the
   level of its value is (`levels`).
2. **Rarity.** The return period of a surprise: how many events pass between two surprises as large, for each detector and for
   the rarest of them (`return_periods`).
3. **News.** One alarm per episode (`return_periods`).

Events are converted to days by the metric's mean time between events. The score is `days / (days + 3.5)`, so events that are
expected less than twice a week score above one half. There is no score until there is a previous day to compare with.
`docs/examples/anomaly-detection.md` gives the reasons, and the value of each part.
"""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from spark_jobs.jobs.anomaly_predictions.models import daily_bands, levels, return_periods
from spark_jobs.jobs.anomaly_predictions.models.daily_bands import DailyBands
from spark_jobs.jobs.anomaly_predictions.models.levels import Levels
from spark_jobs.jobs.anomaly_predictions.models.protocol import Floats, Integers, KeyRuns, Model, Scored, replaced
from spark_jobs.jobs.anomaly_predictions.models.return_periods import HORIZON, ReturnPeriods

HALF_AT = 3.5
"""Return period in days at which the score is one half."""
LONGEST = 60
"""Days after which a surprise is forgotten; at least `HORIZON` events."""
_DAY = 86_400_000_000

_UNTRAINED = {
    "began": None,
    "newest": None,
    **daily_bands.UNTRAINED,
    **levels.UNTRAINED,
    **return_periods.UNTRAINED,
}
"""Times of the first and the newest (microseconds since 1970), and the state of the parts."""


def _kind(name: str) -> pa.DataType:
    value = _UNTRAINED[name]
    number = pa.float64()
    if name in ("began", "newest", "cell", "level_count") or name.endswith("_number") or isinstance(value, int):
        number = pa.int64()
    return pa.list_(number) if isinstance(value, list) else number


class Rarity(Model):
    """The model `rarity`."""

    name = "rarity"
    version = 3
    threshold = 0.5
    state = pa.schema([pa.field(name, _kind(name)) for name in _UNTRAINED])
    untrained = _UNTRAINED

    def score(
        self, models: pl.DataFrame, runs: KeyRuns, times: Integers, values: Floats, *, learns: bool
    ) -> tuple[Scored, dict[str, Any]]:
        bands, levels = DailyBands(models), Levels(models)
        began, newest = (
            models[name].fill_null(pl.Series(times[runs.starts])).to_numpy() for name in ("began", "newest")
        )
        newest = np.maximum(times, newest[runs.key])
        numbers = models["events_learned"].to_numpy()[runs.key] + runs.place * learns
        # The mean days between two events, and the number of events in `LONGEST` days.
        pace = np.divide((newest - began[runs.key]) / _DAY, numbers, out=np.zeros(len(times)), where=numbers > 0)
        in_longest = np.divide(LONGEST, pace, out=np.zeros(len(times)), where=pace > 0.0)
        # Up to 2^53, a float converts to an integer exactly.
        horizons = np.clip(in_longest, HORIZON, 2.0**53).astype(np.int64)
        views = bands.views(runs, times, values, learns=learns)
        of_levels = levels.learn(runs.key, values) if learns else levels.surprises(runs.key, values)
        surprises = np.vstack([views.surprises, of_levels])
        periods = models[list(return_periods.UNTRAINED)]
        rarities = np.zeros(len(values))
        # Without a surprise, the largest ones stay as they are.
        active = np.flatnonzero(np.logical_or.reduceat(surprises.any(axis=0), runs.starts))
        changed = periods[active].to_dicts()
        for place, key in enumerate(active.tolist()):
            rows = slice(runs.starts[key], runs.starts[key] + runs.counts[key])
            of_key = ReturnPeriods(changed[place])
            rarities[rows] = of_key.rarities(surprises[:, rows], numbers[rows], horizons[rows], learns=learns)
            changed[place] = of_key.columns()
        periods = replaced(periods, active, pl.DataFrame(changed, schema=periods.schema))
        days = rarities * pace
        expected = np.clip(views.low + (views.high - views.low) / 2, views.low, views.high)
        score = np.where(np.isnan(views.low), 0.0, days / (days + HALF_AT))
        known = {"began": began, "newest": newest[runs.starts + runs.counts - 1], **periods.to_dict()}
        columns = known | bands.columns() | levels.columns() if learns else {}
        return Scored(expected, views.low, views.high, score), columns
