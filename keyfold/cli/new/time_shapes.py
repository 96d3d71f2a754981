"""How a column of raw values writes its times: ISO 8601, a count from 1970, or one of the formats that people use."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa

from keyfold.cli.new.names import words
from keyfold.ingestion.parsing.casting import cast_columns
from keyfold.ingestion.parsing.declared_times import parse_times
from keyfold.stream import TIMESTAMP

ISO = ""
"""The shape that ingest reads without being told."""

_SPEAKS_OF_TIME = re.compile(
    "time|timestamp|ts|date|datetime|at|when|epoch|instant|created|updated|occurred|start|started|end|ended|begin"
)
_CLOCKS = ("%H:%M:%S%.f", "%H:%M", "%I:%M:%S %p", "%I:%M %p")
_DATES = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y-%m-%d", "%Y.%m.%d", "%d %b %Y")
_FORMATS = (
    *(f"{date} {clock}" for date in _DATES for clock in _CLOCKS),
    *(f"{date} {clock} %z" for date in ("%Y-%m-%d", "%Y/%m/%d") for clock in _CLOCKS[:2]),
    "%Y-%m-%d %H:%M:%S%.f UTC",
    "%d/%b/%Y:%H:%M:%S %z",
    "%a, %d %b %Y %H:%M:%S %z",
    "%b %d, %Y %I:%M:%S %p",
    "%Y%m%dT%H%M%S%z",
    "%Y%m%dT%H%M%S",
    "%Y%m%dT%H%M%SZ",
    *_DATES,
)
_PLAUSIBLE = datetime(1990, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_HISTORY = datetime(1800, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class TimeShape:
    """How times are written, and what was made of them.

    Attributes:
        shape: as `Source.time` takes it; empty for ISO 8601.
        times: the values as times, NULL for those that are none.
        other: a shape that all of them have as well; empty where there is none.
    """

    shape: str
    times: pl.Series
    other: str = ""


def iso_times(values: pl.Series) -> pl.Series:
    """Values as ingest reads times that nothing is said of."""
    typed, _ = cast_columns(
        {"time": [pa.chunked_array([values.to_arrow()])]}, len(values), pa.schema([("time", TIMESTAMP)])
    )
    return pl.Series(pl.from_arrow(typed.column("time")))


def find_time_shape(name: str, values: pl.Series, most: int) -> TimeShape | None:
    """The shape that the values of a column have, all but `most` of them; None where they are no times.

    Digits alone are times only in a column whose name speaks of time.

    Args:
        name: of the raw column.
        values: text or numbers, none of them NULL.
        most: how many may be of no shape.
    """
    needed = max(len(values) - most, 1)
    if values.dtype == pl.String:
        times = iso_times(values)
        if times.is_not_null().sum() >= needed:
            return TimeShape(ISO, times)
        if found := _text_shape(values, needed):
            return found
    if any(_SPEAKS_OF_TIME.fullmatch(word) for word in words(name)):
        return _digits_shape(values, needed)
    return None


def _text_shape(values: pl.Series, needed: int) -> TimeShape | None:
    few = values.head(50)
    found: list[TimeShape] = []
    for shape in _FORMATS:
        # Most formats fit none of a few values: the rest need not be read.
        if not parse_times(few, shape).is_not_null().any():
            continue
        times = _between(parse_times(values, shape), _HISTORY)
        if times.is_not_null().sum() >= needed:
            found.append(TimeShape(shape, times))
    if not found:
        return None
    # The day and the month may be told apart by no value; files mostly are in order of time.
    found.sort(key=lambda one: (one.times.null_count(), not one.times.drop_nulls().is_sorted()))
    best = found[0]
    twins = [one.shape for one in found[1:] if not one.times.equals(best.times)]
    is_torn = bool(twins) and found[1].times.null_count() == best.times.null_count()
    return TimeShape(best.shape, best.times, twins[0] if is_torn else "")


def _digits_shape(values: pl.Series, needed: int) -> TimeShape | None:
    if values.dtype == pl.String and values.str.contains(r"^\d+(\.\d+)?$").sum() < needed:
        return None
    for unit in ("s", "ms", "us", "ns"):
        times = _between(parse_times(values, unit), _PLAUSIBLE)
        if times.is_not_null().sum() >= needed:
            return TimeShape(unit, times)
    if values.dtype == pl.String:
        for shape in ("%Y%m%d%H%M%S", "%Y%m%d"):
            times = _between(parse_times(values, shape), _PLAUSIBLE)
            if times.is_not_null().sum() >= needed:
                return TimeShape(shape, times)
    return None


def _between(times: pl.Series, bounds: tuple[datetime, datetime]) -> pl.Series:
    return times.set(~times.is_between(*bounds), None)
