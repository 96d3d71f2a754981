"""Periods of event time, aligned to 1970 UTC: one after the other, or overlapping."""

from datetime import timedelta

import polars as pl

from spark_jobs.times import micros


def period_start(time: pl.Expr, length: timedelta) -> pl.Expr:
    """The start of the period in which a time lies; of times before 1970 too."""
    microseconds = time.to_physical()
    return (microseconds - microseconds % micros(length)).cast(pl.Datetime("us", "UTC"))


def period_starts(time: pl.Expr, length: timedelta, every: timedelta) -> pl.Expr:
    """The starts of the periods in which a time lies, where one begins `every` so long: a list, earliest first.

    Args:
        time: timestamps.
        length: of a period; its end is not in it.
        every: how long after one the next begins, at most `length`.
    """
    microseconds, step = time.to_physical(), micros(every)
    ended = microseconds - micros(length)
    first = ended - ended % step + step
    return pl.int_ranges(first, microseconds + 1, step).cast(pl.List(pl.Datetime("us", "UTC")))
