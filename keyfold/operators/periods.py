"""Compute periods of event time, aligned to 1970 UTC: consecutive or overlapping ones."""

from datetime import timedelta

import polars as pl

from keyfold.times import BEGINNING, micros


def period_start(time: pl.Expr, length: timedelta) -> pl.Expr:
    """Return the start of the period that a time is in; also for times before 1970."""
    microseconds = time.to_physical()
    return (microseconds - microseconds % micros(length)).cast(pl.Datetime("us", "UTC"))


def period_starts(time: pl.Expr, length: timedelta, every: timedelta) -> pl.Expr:
    """Return the starts of all periods that a time is in, as a list, earliest first.

    Of the periods that begin before the year 1, only the last is returned.

    Args:
        time: timestamps.
        length: length of a period; its end is exclusive.
        every: time between the starts of two periods, at most `length`.
    """
    microseconds, step = time.to_physical(), micros(every)
    ended = microseconds - micros(length)
    first = ended - ended % step + step
    # Starts before the calendar would all be limited to its beginning, and be the same key: keep only the last.
    first = pl.max_horizontal(first, _BEGINNING - _BEGINNING % step)
    return pl.int_ranges(first, microseconds + 1, step).cast(pl.List(pl.Datetime("us", "UTC")))


_BEGINNING = micros(BEGINNING)
