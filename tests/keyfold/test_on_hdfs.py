"""A home on HDFS with a real Spark: from landed files to ride summaries, run by run, against plain Python."""

import pytest

from tests.test_on_a_bucket import check_rides


@pytest.mark.chaos
@pytest.mark.long
@pytest.mark.one_machine
def test_rides_of_hdfs_are_summarised_run_by_run_and_every_point_is_accounted_for(tmp_path, hdfs):
    check_rides(hdfs.new_folder() / "lake" / "home", tmp_path)
