"""On Spark: state that is read, seeded and moved goes on as if it had never stopped."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.reporting.conservation import check_conservation
from keyfold.keyed.runner import run_job
from keyfold.state.changing.moving import move
from keyfold.state.making.bootstrap import Bootstrap, bootstrap
from keyfold.state.reading.export import write_state
from keyfold.state.reading.reader import read_state
from keyfold.storage.place import local_path
from tests.folders import copy_folder
from tests.keyfold.state.job_histories import END, History, put

RIDES = History("ride_summaries", {"close": "complete"})


def everything(spark, lakehouse, job):
    """The rows of all tables, and the state."""
    tables = {table.name: pl.read_delta(str(lakehouse.table(table.name))) for table in job.tables}
    return tables | {"state": read_state(lakehouse, job).polars()}


@pytest.fixture(scope="module")
def half_way(spark, new_home):
    """A lakehouse in which half of the rides' points have come."""
    lakehouse = new_home("half")
    for part in RIDES.parts()[:2]:
        put(lakehouse, "ride_points", part)
    run_job(lakehouse, RIDES.job(), runners=spark)
    return lakehouse


@pytest.fixture
def copied(spark, new_home, half_way):
    """Makes copies of that lakehouse."""

    def copy(name):
        made = new_home(name)
        copy_folder(half_way.home, made.home)
        if local_path(made.home) is None:
            # State that was moved in a store is read after a run, which finds nothing new here.
            run_job(made, RIDES.job(), runners=spark)
        return made

    return copy


def test_state_that_is_read_seeded_and_moved_goes_on_as_if_it_had_never_stopped(spark, copied, tmp_path):
    job, moved_job = RIDES.job(), RIDES.job(key_groups=9)
    whole, other = copied("whole"), copied("other")
    before = everything(spark, whole, job)
    write_state(read_state(other, job), str(tmp_path / "state"), "parquet")
    told = bootstrap(other, job, Bootstrap(str(tmp_path / "state")), runners=spark)
    assert told.checked.rows == before["state"].height > 0
    assert_frame_equal(everything(spark, other, job)["state"], before["state"], check_row_order=False)
    move(other, moved_job, partitions=3, runners=spark)
    for part in RIDES.parts()[2:]:
        put(whole, "ride_points", part)
        put(other, "ride_points", part)
    run_job(whole, job, Incremental(advance_to=END), runners=spark)
    run_job(other, moved_job, Incremental(advance_to=END), runners=spark)
    expected, found = everything(spark, whole, job), everything(spark, other, moved_job)
    for name, rows in found.items():
        earlier = before[name] if name != "state" else before[name].clear()
        assert_frame_equal(pl.concat([earlier, rows]), expected[name], check_row_order=False, check_exact=True)
    assert found["ride_summaries"].height > 0
    assert check_conservation(whole, job).balanced
    assert check_conservation(other, moved_job).balanced
