"""Events of toy jobs, and the engine with and without Spark."""

from datetime import timedelta

import polars as pl
import pytest

from tests.spark_jobs.keyed.toy_jobs import START, clicks
from tests.spark_jobs.keyed.without_spark import cut_power, without_spark

__all__ = ["cut_power", "without_spark"]


@pytest.fixture
def land(lakehouse):
    """Put clicks into the event table, one file a call."""

    def land(*rows):
        lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
        clicks(*rows).write_delta(str(lakehouse.events("clicks")), mode="append")

    return land


@pytest.fixture
def rows(lakehouse):
    """The rows of a table, in one order."""

    def rows(table):
        return sorted(pl.read_delta(str(lakehouse.table(table))).rows())

    return rows


@pytest.fixture
def minutes():
    """The time so many minutes after START."""
    return lambda count: START + timedelta(minutes=count)
