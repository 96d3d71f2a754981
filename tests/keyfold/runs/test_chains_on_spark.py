"""Chains of jobs on Spark: refreshed together, erased together, and counted after each."""

from datetime import timedelta

import pytest

import keyfold
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.lakehouse.files import remove_tree
from keyfold.runs import refresh_with_consumers
from keyfold.state.changing.audit import Author
from keyfold.state.erasure.erasing import Erasure, erase
from keyfold.state.reading.reader import read_state
from tests.keyfold.keyed.running.test_upsert_changes import LEVELS, TOTALS, levels
from tests.keyfold.keyed.test_jobs_on_jobs import CLICKS, DAILY, HOURLY, NOON, Site
from tests.keyfold.state.erasure.test_erasing import files_that_hold

CHAINS = (HOURLY, DAILY, TOTALS, LEVELS)


def counted(site):
    return [keyfold.assert_nothing_lost(site.spark, site.lakehouse, job).by_producer for job in CHAINS]


# Without Spark `test_chains.py` and `test_erasing_chains.py` have each of these; the story of docs/tutorial/state.md erases on Spark.
@pytest.mark.slow
def test_chains_are_refreshed_and_erased_together_and_nothing_is_lost(spark, tmp_path):
    site = Site(tmp_path, spark)
    site.click(("ann", 0), ("evangeline", 30), ("bob", 70), ("evangeline", 200))
    for job in CHAINS:
        site.run(job)
    site.click(("ann", 201), ("evangeline", 202), ("evangeline", 203))
    for job in CHAINS:
        site.run(job)
    assert levels(site) == {"level 0": 2, "level 1": 1}
    assert counted(site) == [{}, {"rows": (3, 3)}, {}, {"to": (5, 5), "away": (5, 5)}]
    refresh_with_consumers(spark, site.lakehouse, HOURLY, [DAILY])
    remove_tree(site.lakehouse.landing("clicks"))
    person = Erasure({"user": ["evangeline"]}, Author("dpo@example.org", "request 17"))
    assert erase(spark, site.lakehouse, CLICKS, CHAINS, person).rows["changes.totals"] == 2
    assert files_that_hold(site.lakehouse, "evangeline") == []
    assert counted(site) == [{}, {"rows": (2, 2)}, {}, {"to": (3, 3), "away": (3, 3)}]
    assert "evangeline" not in read_state(spark, site.lakehouse, TOTALS).polars()["user"].to_list()
    site.run(HOURLY, Incremental(NOON + timedelta(days=2)))
    site.run(DAILY)
    assert site.table("daily") == [("ann", NOON.replace(hour=0), 2), ("bob", NOON.replace(hour=0), 1)]
