"""Times and spans as whole microseconds, for work on arrays, and back."""

from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""1970: time zero, and the watermark before any event was seen."""

Micros = npt.NDArray[np.int64]


def micros(value: datetime | timedelta) -> int:
    """Microseconds of a span, or of a time since 1970 (UTC)."""
    span = value - EPOCH if isinstance(value, datetime) else value
    return span // timedelta(microseconds=1)


def moment(value: int) -> datetime:
    """The UTC time that is so many microseconds past 1970."""
    return EPOCH + timedelta(microseconds=int(value))


def to_micros(times: pl.Series) -> Micros:
    """Microseconds since 1970 (UTC) of a column of times without gaps."""
    return times.to_physical().to_numpy()


def to_times(values: Micros) -> pl.Series:
    """UTC times of microseconds since 1970."""
    return pl.Series(values).cast(pl.Datetime("us", "UTC"))
