"""A crash in a run of a job, at points of a batch by turns, changes none of its rows. Without Spark.

Timeouts in processing time are in `test_processing_time.py`, rides with weather in `test_ride_weather.py`.
"""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.runner import RunOptions, run_job
from keyfold.lakehouse import Lakehouse, fail_points
from tests.keyfold.keyed.without_spark import SPARK
from tests.keyfold.state.job_histories import END, HISTORIES, History, put

pytestmark = pytest.mark.usefixtures("without_spark")

POINTS = [point for point in fail_points.POINTS if point.startswith(("work", "done", "commit"))]
AT_ONCE = {"order": "arrival", "forget_after": "20m", "emit": "all", "min_events": 5}
# What an answer depends on beside event time, and jobs whose rows are replaced, copied, combined or late by window.
CRASHED = [
    *(one for one in HISTORIES if one.name in ("fleet_warnings", "top_products", "model_totals")),
    *(one for one in HISTORIES if one.given.get("window") == "1h every 20m"),
    *(one for one in HISTORIES if one.name == "card_in_two_cities"),
    History("anomaly_predictions", AT_ONCE),
    History("anomaly_predictions", {**AT_ONCE, "learn": "refresh", "refresh_after": "9h"}),
]


def run(lakehouse: Lakehouse, history: History, cut=lambda work: work()):
    """Run a job over its deliveries, a batch each, and to the end; `cut` runs the third of them."""
    job = history.job()
    for number, part in enumerate(history.parts()):
        put(lakehouse, job.only_input.stream.name, part)
        if number == 2:
            cut(lambda: run_job(lakehouse, job, runners=SPARK))
        if number in (0, 3):
            run_job(lakehouse, job, options=RunOptions(max_bytes_per_batch=1), runners=SPARK)
    return run_job(lakehouse, job, Incremental(advance_to=END), runners=SPARK)


@pytest.mark.parametrize("history", CRASHED, ids=str)
def test_a_crash_in_a_run_writes_nothing_twice_and_loses_nothing(tmp_path, cut_power, history):
    whole, broken = Lakehouse(tmp_path / "whole"), Lakehouse(tmp_path / "broken")
    expected = run(whole, history)
    points = POINTS[CRASHED.index(history) % 3 :: 3]

    def cut(work):
        came_to_it = [cut_power(point, work) for point in points]
        assert any(came_to_it)
        work()

    found = run(broken, history, cut)
    assert (found.totals.events, found.totals.open_events) == (expected.totals.events, expected.totals.open_events)
    for table in history.job().tables:
        rows, unbroken = (pl.read_delta(str(one.table(table.name))) for one in (broken, whole))
        assert_frame_equal(rows, unbroken, check_row_order=False, check_exact=True)
