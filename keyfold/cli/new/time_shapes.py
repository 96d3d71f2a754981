"""Detect the time format of a raw column: ISO 8601, a count since 1970, or another common format."""

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
"""The format that ingest reads by default."""

_TIME_WORDS = re.compile(
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
    """A time format, and the values parsed with it.

    Attributes:
        shape: the format, as in `Source.time`; empty for ISO 8601.
        times: the parsed values; NULL if invalid.
        other: another format that fits as many values; empty if there is none.
    """

    shape: str
    times: pl.Series
    other: str = ""


def iso_times(values: pl.Series) -> pl.Series:
    """Parse times as ingest does by default."""
    typed, _ = cast_columns(
        {"time": [pa.chunked_array([values.to_arrow()])]}, len(values), pa.schema([("time", TIMESTAMP)])
    )
    return pl.Series(pl.from_arrow(typed.column("time")))


def find_time_shape(name: str, values: pl.Series, most: int) -> TimeShape | None:
    """Find the time format of a column's values; None if they are not times.

    Numbers are times only in a column with a name such as `created_at`.

    Args:
        name: the raw column's name.
        values: text or numbers, never NULL.
        most: how many values may not fit.
    """
    needed = max(len(values) - most, 1)
    if values.dtype == pl.String:
        times = iso_times(values)
        if times.is_not_null().sum() >= needed:
            return TimeShape(ISO, times)
        if found := _text_shape(values, needed):
            return found
    if any(_TIME_WORDS.fullmatch(word) for word in words(name)):
        return _digits_shape(values, needed)
    return None


def _text_shape(values: pl.Series, needed: int) -> TimeShape | None:
    few = values.head(50)
    found: list[TimeShape] = []
    for shape in _FORMATS:
        # Try a few values first: most formats fit none of them.
        if not parse_times(few, shape).is_not_null().any():
            continue
        times = _between(parse_times(values, shape), _HISTORY)
        if times.is_not_null().sum() >= needed:
            found.append(TimeShape(shape, times))
    if not found:
        return None
    # If no day is above 12, day and month cannot be told apart. Most files are sorted by time, so prefer the format in which
    # the times are sorted.
    found.sort(key=lambda one: (one.times.null_count(), not one.times.drop_nulls().is_sorted()))
    best = found[0]
    others = [one.shape for one in found[1:] if not one.times.equals(best.times)]
    is_ambiguous = bool(others) and found[1].times.null_count() == best.times.null_count()
    return TimeShape(best.shape, best.times, others[0] if is_ambiguous else "")


def _digits_shape(values: pl.Series, needed: int) -> TimeShape | None:
    if values.dtype == pl.String and values.str.contains(r"^\d+(\.\d+)?$").sum() < needed:
        return None
    # The plausible ranges of two units do not overlap: seconds of 2100 are milliseconds of 1970.
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
