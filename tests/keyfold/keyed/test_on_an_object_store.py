"""What a dead writer leaves in a bucket is in nobody's way; killed and frozen drivers are `tests/chaos/test_object_store.py`'s."""

import pytest

from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.lakehouse import Lakehouse
from tests.keyfold.keyed.toy_jobs import totals


@pytest.fixture
def lakehouse(bucket):
    return Lakehouse(f"s3a://{bucket}/home")


def test_the_folder_of_a_dead_generation_is_no_other_one_s(lake, lakehouse, cut_power):
    """A run that lost its lease may still write there."""
    lake.click(("ann", 0))
    lake.run(totals())
    names = []
    for _ in range(3):
        assert cut_power("done: before", lambda: lake.run(totals(), FullRefresh()))
        names.append([folder.name for folder in lakehouse.job("totals").glob("generation-*")])
    assert names == [["generation-0001", f"generation-{number:04d}"] for number in (2, 3, 4)]
    assert lake.rows("totals") == [("ann", 1)]
