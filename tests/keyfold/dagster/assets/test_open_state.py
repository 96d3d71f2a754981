"""What is open in a job, as an asset: read from its state, held against its journal and its tables. The demo has it on Spark."""

from typing import Any

import dagster as dg
import polars as pl
import pytest
from pyspark.sql import SparkSession

from keyfold.dagster.assets.open_state import open_state_asset
from keyfold.ingestion import ingest
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.parameters import build_job
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.privacy import MASK
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
from spark_jobs.streams import RIDE_POINTS
from tests.folders import simulate_into
from tests.keyfold.keyed.without_spark import SPARK
from tests.lake import Lake


@pytest.fixture
def spark(local_reader: SparkSession) -> SparkSession:
    return local_reader


@pytest.fixture(scope="module")
def ran(new_home) -> tuple[Lakehouse, KeyedDone]:
    """Rides that were ingested and summarized, and the journal's last word of them."""
    lakehouse = new_home("open")
    simulate_into(lakehouse.landing("ride_points"), "ride_points", size=40, seed=3, files=4)
    ingest(SPARK, lakehouse, RIDE_POINTS)
    run_job(SPARK, lakehouse, build_job(RIDE_SUMMARIES))
    done = Lake(lakehouse).done(RIDE_SUMMARIES.name)
    return lakehouse, done


def materialize(spark: SparkSession, lakehouse: Lakehouse, asset: dg.AssetsDefinition) -> dg.ExecuteInProcessResult:
    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize([asset], instance=instance, resources={"spark": spark, "lakehouse": lakehouse})


def told(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (made,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in made.materialization.metadata.items()}


def test_the_open_rides_are_those_that_the_journal_counts_and_no_summary_tells_of(spark, ran):
    lakehouse, done = ran
    metadata = told(materialize(spark, lakehouse, open_state_asset(RIDE_SUMMARIES)))
    found = pl.read_delta(str(lakehouse.table("open.ride_summaries")))
    points = pl.read_delta(str(lakehouse.table("events.ride_points")))
    assert found.height == metadata["dagster/row_count"] == metadata["open_keys"] > 0
    assert found["open_events"].sum() == done.open_events
    # The first and last times of an open ride's points, as the event table has them.
    spans = points.group_by("ride_id").agg(first=pl.col("timestamp").min(), last=pl.col("timestamp").max())
    joined = found.join(spans, on="ride_id", validate="1:1")
    assert joined.height == found.height
    assert (joined["latest"] == joined["last"]).all()
    assert (joined["open_since"] >= joined["first"]).all()
    assert (found["deadline"] > done.watermark).all()
    assert {"preview", "open_keys_by_age", "keyfold/generation", "keyfold/batch", "watermark"} <= metadata.keys()
    assert metadata["open_keys_by_age"].startswith("![Age of open keys of ride_summaries")
    assert metadata["state_keys"] >= found.height
    assert metadata["next_deadline"] == min(deadline.timestamp() for deadline in found["deadline"].drop_nulls())
    assert metadata["state_over_batches"].startswith("![Growth of the state of ride_summaries")


def test_asked_again_it_replaces_its_rows(spark, ran):
    lakehouse, _ = ran
    before = told(materialize(spark, lakehouse, open_state_asset(RIDE_SUMMARIES)))
    after = told(materialize(spark, lakehouse, open_state_asset(RIDE_SUMMARIES)))
    assert after["dagster/row_count"] == before["dagster/row_count"]
    assert after["table_version"] == before["table_version"] + 1


def test_a_job_that_has_not_run_shows_nothing_and_fails_nothing(spark, ran):
    lakehouse, _ = ran
    result = materialize(spark, lakehouse, open_state_asset(EVENT_INDEX))
    assert result.success
    assert not result.get_asset_materialization_events()
    assert "open.event_index" not in lakehouse.tables()


def test_what_is_private_is_masked_in_the_preview(spark, ran, monkeypatch):
    lakehouse, _ = ran
    monkeypatch.setattr(KeyedJob, "private_of", lambda *_: frozenset({"ride_id"}))
    rows = told(materialize(spark, lakehouse, open_state_asset(RIDE_SUMMARIES)))["preview"].records
    assert {row.data["ride_id"] for row in rows} == {MASK}
