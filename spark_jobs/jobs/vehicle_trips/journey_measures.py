"""What only some points tell: hard braking and acceleration, counted, and the highest engine temperature, by journey."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

COMBINED_BY = {"braking": np.add, "accelerating": np.add, "heat": np.maximum}
"""How the values of a column of stretches come together; of a stretch's first point they stand in `start_…`."""

POINTS_AS_STRETCHES = tuple(
    pl.when(pl.col("end_time").is_null()).then(f"start_{name}").otherwise(name).alias(name) for name in COMBINED_BY
)
"""What a single point tells, as what its stretch does."""


class Told(NamedTuple):
    """What is told of each journey; NULL of one where no point tells anything.

    Attributes:
        by_points: of its own points.
        with_arrival: of these and the point at which it arrives.
    """

    by_points: pl.Series
    with_arrival: pl.Series


def told_of(
    stretches: pl.DataFrame, name: str, first: npt.NDArray[Any], arrival: npt.NDArray[Any], arrives: npt.NDArray[Any]
) -> Told:
    """Combine a column of stretches by journey.

    Args:
        stretches: in order.
        name: one of `COMBINED_BY`.
        first: of each journey its first row.
        arrival: of each journey the row at which it arrives.
        arrives: whether it does.
    """
    combine = COMBINED_BY[name]
    values, is_told = _values(stretches[name], combine)
    there, is_told_there = _values(stretches[f"start_{name}"].gather(arrival), combine)
    is_told_there &= arrives
    values, is_told = combine.reduceat(values, first), np.logical_or.reduceat(is_told, first)
    with_arrival = np.where(is_told_there, combine(values, there), values)
    return Told(_or_null(values, is_told), _or_null(with_arrival, is_told | is_told_there))


def _values(column: pl.Series, combine: np.ufunc) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    nothing = 0 if combine is np.add else -np.inf
    return column.fill_null(nothing).to_numpy(), column.is_not_null().to_numpy()


def _or_null(values: npt.NDArray[Any], is_told: npt.NDArray[np.bool_]) -> pl.Series:
    return pl.Series(values).set(pl.Series(~is_told), None)
