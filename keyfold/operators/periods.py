"""Periods of event time, aligned to 1970 UTC: one after the other, or overlapping."""

from datetime import timedelta

import polars as pl

from keyfold.times import BEGINNING, micros


def period_start(time: pl.Expr, length: timedelta) -> pl.Expr:
    """The start of the period in which a time lies; of times before 1970 too."""
    microseconds = time.to_physical()
    return (microseconds - microseconds % micros(length)).cast(pl.Datetime("us", "UTC"))


def period_starts(time: pl.Expr, length: timedelta, every: timedelta) -> pl.Expr:
    """The starts of the periods in which a time lies, where one begins `every` so long: a list, earliest first.

    Of those that begin before the year 1, only the last.

    Args:
        time: timestamps.
        length: of a period; its end is not in it.
        every: how long after one the next begins, at most `length`.
    """
    microseconds, step = time.to_physical(), micros(every)
    ended = microseconds - micros(length)
    first = ended - ended % step + step
    # Of those that begin before the calendar, the last: each would be shown as beginning with it, and be one key.
    first = pl.max_horizontal(first, _BEGINNING - _BEGINNING % step)
    return pl.int_ranges(first, microseconds + 1, step).cast(pl.List(pl.Datetime("us", "UTC")))


_BEGINNING = micros(BEGINNING)
