"""Score how rare an event is by its return period in days, combined from two kinds of detectors. Meant for alarms.

1. **Surprises.** How far an event is outside of the bands of its time of day, in four views (`daily_bands`); how rare the
   level of its value is (`levels`).
2. **Rarity.** The return period of a surprise: how many events pass between two surprises as large, for each detector and for
   the rarest of them (`return_periods`).
3. **News.** One alarm per episode (`return_periods`).

Events are converted to days by the metric's mean time between events. The score is `days / (days + 3.5)`, so events that are
expected less than twice a week score above one half. There is no score until there is a previous day to compare with.
`docs/contributing/anomaly-detection.md` gives the reasons, and the value of each part.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.jobs.anomaly_predictions.models import daily_bands, levels, return_periods
from spark_jobs.jobs.anomaly_predictions.models.daily_bands import DailyBands
from spark_jobs.jobs.anomaly_predictions.models.levels import Levels
from spark_jobs.jobs.anomaly_predictions.models.protocol import Floats, Integers, Model, Scored
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

    def score(self, model: dict[str, Any], times: Integers, values: Floats, *, learns: bool) -> Scored:
        bands, levels, periods = DailyBands(model), Levels(model), ReturnPeriods(model)
        began = times[0].item() if model["began"] is None else model["began"]
        newest = times if model["newest"] is None else np.maximum(times, model["newest"])
        numbers = model["events_learned"] + (np.arange(len(times)) if learns else np.zeros(len(times), np.int64))
        # The mean days between two events, and the number of events in `LONGEST` days.
        pace = np.divide((newest - began) / _DAY, numbers, out=np.zeros(len(times)), where=numbers > 0)
        in_longest = np.divide(LONGEST, pace, out=np.zeros(len(times)), where=pace > 0.0)
        # Up to 2^53, a float converts to an integer exactly.
        horizons = np.clip(in_longest, HORIZON, 2.0**53).astype(np.int64)
        views = bands.views(times, values, learns=learns)
        of_levels = levels.learn(values) if learns else levels.surprises(values)
        rarities = periods.rarities(np.vstack([views.surprises, of_levels]), numbers, horizons, learns=learns)
        if learns:
            known = {"began": began, "newest": newest[-1].item()}
            model.update(known | bands.columns() | levels.columns() | periods.columns())
        days = rarities * pace
        expected = np.clip(views.low + (views.high - views.low) / 2, views.low, views.high)
        return Scored(expected, views.low, views.high, np.where(np.isnan(views.low), 0.0, days / (days + HALF_AT)))
