"""Combine optional values of points by journey: hard braking, hard acceleration, highest engine temperature."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

COMBINED_BY = {"braking": np.add, "accelerating": np.add, "heat": np.maximum}
"""How the values of a stretch column are combined; the values of a stretch's first point are in `start_…`."""

POINTS_AS_STRETCHES = tuple(
    pl.when(pl.col("end_time").is_null()).then(f"start_{name}").otherwise(name).alias(name) for name in COMBINED_BY
)
"""Columns that give a single point the values of a stretch."""


class Measure(NamedTuple):
    """The combined value of each journey; NULL if no point has a value.

    Attributes:
        by_points: the value of the journey's points.
        with_arrival: the value of these and of the arrival.
    """

    by_points: pl.Series
    with_arrival: pl.Series


def measure(
    stretches: pl.DataFrame, name: str, first: npt.NDArray[Any], arrival: npt.NDArray[Any], arrives: npt.NDArray[Any]
) -> Measure:
    """Combine a column of stretches by journey.

    Args:
        stretches: the stretches, ordered by vehicle and time.
        name: one of `COMBINED_BY`.
        first: the first row of each journey.
        arrival: the row of each journey's arrival.
        arrives: whether the journey has an arrival.
    """
    combine = COMBINED_BY[name]
    values, has_value = _values(stretches[name], combine)
    at_arrival, has_arrival_value = _values(stretches[f"start_{name}"].gather(arrival), combine)
    has_arrival_value &= arrives
    values, has_value = combine.reduceat(values, first), np.logical_or.reduceat(has_value, first)
    with_arrival = np.where(has_arrival_value, combine(values, at_arrival), values)
    return Measure(_or_null(values, has_value), _or_null(with_arrival, has_value | has_arrival_value))


def _values(column: pl.Series, combine: np.ufunc) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    nothing = 0 if combine is np.add else -np.inf
    return column.fill_null(nothing).to_numpy(), column.is_not_null().to_numpy()


def _or_null(values: npt.NDArray[Any], has_value: npt.NDArray[np.bool_]) -> pl.Series:
    return pl.Series(values).set(pl.Series(~has_value), None)
