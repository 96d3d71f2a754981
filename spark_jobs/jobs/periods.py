"""Tumbling periods of event time, aligned to 1970 UTC."""

from datetime import timedelta

import polars as pl

from spark_jobs.times import micros


def period_start(time: pl.Expr, length: timedelta) -> pl.Expr:
    """The start of the period in which a time lies; of times before 1970 too."""
    microseconds = time.to_physical()
    return (microseconds - microseconds % micros(length)).cast(pl.Datetime("us", "UTC"))
