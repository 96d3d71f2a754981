"""The real shop's sales, of an eighth of its items; of all of them in `make slow-tests`."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.spark_jobs.jobs.sales_data import retail


@pytest.fixture(params=[8, pytest.param(1, marks=pytest.mark.slow)], ids=["an eighth of the items", "all items"])
def shop(request: pytest.FixtureRequest, real_data: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with retail(real_data, every=request.param) as database:
        yield database
