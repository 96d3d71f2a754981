"""Events of toy jobs, and the engine with and without Spark."""

from datetime import timedelta

import pytest
from deltalake import write_deltalake

from keyfold.lakehouse.reading import scan_table
from tests.keyfold.keyed.toy_jobs import START, clicks
from tests.keyfold.keyed.without_spark import cut_power, without_spark

__all__ = ["cut_power", "without_spark"]


@pytest.fixture
def land(lakehouse):
    """Put clicks into the event table, one file a call."""

    def land(*rows):
        lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(str(lakehouse.events("clicks")), clicks(*rows), mode="append")

    return land


@pytest.fixture
def rows(lakehouse):
    """The rows of a table, in one order."""

    def rows(table):
        return sorted(scan_table(lakehouse.table(table)).collect().rows())

    return rows


@pytest.fixture
def minutes():
    """The time so many minutes after START."""
    return lambda count: START + timedelta(minutes=count)
