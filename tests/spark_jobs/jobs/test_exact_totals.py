"""Totals of whole numbers are exact, or their batch is refused with the key and what to do."""

from datetime import timedelta

import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job_run import run_job
from keyfold.keyed.rows.exact_sums import TotalTooLargeError
from keyfold.lakehouse.reading import scan_table
from keyfold.times import EPOCH
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTALS
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.jobs.vehicle_trips import VEHICLE_TRIPS
from tests.spark_jobs.jobs.events import LONG_PAST_ALL, NOON, ride_point, telemetry_point

LARGE = 2**63 - 1


def points_of(job, points):
    """Points of telemetry or rides, as the job gets them."""
    kinds = pl.DataFrame(job.columns.empty_table()).schema
    return pl.DataFrame(points, schema_overrides=kinds).select(kinds.names())


def test_fuel_of_vehicles_is_exact_or_refused():
    job = build_job(VEHICLE_TRIPS)

    def fuel_used(*levels):
        harness = TestHarness(job)
        harness.batch(points_of(job, [telemetry_point(at, 50, level) for at, level in enumerate(levels)]))
        harness.batch(advance_to=LONG_PAST_ALL)
        return harness.written[job.name]["fuel_used"].to_list()

    assert fuel_used(9e12, 0.0, 10.0, 4.0)[-1] == 9e12 + 6
    with pytest.raises(TotalTooLargeError, match="total of fuel_used does not fit into Int64"):
        fuel_used(9e12, 0.0, 9e12, 0.0)


@pytest.mark.parametrize("template", [VEHICLE_TRIPS, RIDE_SUMMARIES], ids=lambda one: one.name)
@pytest.mark.parametrize("room", [0, 10**13])
def test_distances_are_exact_or_refused(template, room):
    job = build_job(template)
    make = ride_point if template is RIDE_SUMMARIES else telemetry_point
    key = ("r", 1) if template is RIDE_SUMMARIES else ()

    def at(minute, **place):
        return points_of(job, [make(*key, minute, **place) if key else make(minute, 50, **place)])

    harness = TestHarness(job)
    harness.batch(at(0))
    harness.batch(at(1))
    # With an event before the first: a ride adds up what is settled, and does not only keep the new point.
    harness.batch(at(-1), advance_to=NOON + timedelta(minutes=2))
    # Some 460,000 legs halfway round the earth would come to it.
    harness.state = harness.state.with_columns(
        pl.when(pl.col("distance").is_not_null()).then(pl.lit(LARGE - room)).alias("distance")
    )
    harness.batch(at(15, latitude=10.0))
    if room:
        harness.batch(advance_to=LONG_PAST_ALL)
        assert harness.written[job.name].height
        return
    with pytest.raises(TotalTooLargeError, match="total of distance does not fit into Int64"):
        harness.batch(advance_to=LONG_PAST_ALL)


def test_a_refused_batch_writes_nothing_and_its_remedy_lets_the_job_go_on(without_spark, lakehouse):
    job, table = build_job(PURCHASE_TOTALS), lakehouse.events("sales")
    table.parent.mkdir(parents=True)

    def land(*quantities):
        rows = {"item": "Mac", "time": EPOCH, "quantity": quantities, "models": [["Air"]] * len(quantities)}
        frame = pl.DataFrame({**rows, "quantity": list(quantities)})
        frame.with_columns(pl.col("time").dt.cast_time_unit("us")).write_delta(str(table), mode="append")

    land(LARGE)
    run_job(lakehouse, job, runners=without_spark)
    land(1)
    message = r"job purchase_totals, .*total of cumulative_quantity does not fit into Int64.*--rebuild.*--full-refresh"
    for _ in range(2):
        with pytest.raises(KeyfoldError, match=message):
            run_job(lakehouse, job, runners=without_spark)
    assert scan_table(lakehouse.table("purchase_totals")).collect()["cumulative_quantity"].to_list() == [LARGE]
    table.rename(table.with_name("aside"))
    land(5, 1)
    run_job(lakehouse, job, FullRefresh(), runners=without_spark)
    land(2)
    run_job(lakehouse, job, runners=without_spark)
    assert sorted(scan_table(lakehouse.table("purchase_totals")).collect()["cumulative_quantity"]) == [1, 6, 8]
