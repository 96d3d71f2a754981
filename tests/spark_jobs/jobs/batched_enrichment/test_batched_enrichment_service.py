"""Batched enrichment against the demo service: over real HTTP, with failures of every kind, and once on Spark."""

import json
import logging
import socket
from datetime import timedelta

import polars as pl
import pytest
from pyspark import cloudpickle

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.conservation import check_conservation
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.job_run import RunOptions, run_job
from keyfold.lakehouse import fail_points
from keyfold.testing import accounted_for, restart
from spark_jobs.jobs.batched_enrichment import client
from spark_jobs.jobs.batched_enrichment.job import DEAD_LETTERS, NAME
from spark_jobs.simulation.enrichment_service import DemoService
from tests.shop import NOON
from tests.spark_jobs.jobs.batched_enrichment.scripted_service import NOW, in_shards, job_asking, play_points, points


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(client, "LONGEST_PAUSE", 0.01)


def test_ten_thousand_events_are_enriched_in_at_most_twenty_four_calls_never_too_many_at_a_time():
    with DemoService(latency=0.03) as demo:
        harness = play_points(demo.url, points(10_000), max_in_flight=3)
        stats = demo.stats()
    written = harness.written[NAME]
    assert stats["calls"] <= 20 + 4
    assert stats["in_flight_most"] == 3
    assert (stats["events"], stats["repeated_calls"]) == (10_000, 0)
    assert written.drop("enrichment", "idempotency_key").sort("point_idx").equals(points(10_000))
    # Longitude west and latitude north of New York: each row has its own event's answer.
    tile = pl.format(
        "{},{}", *(pl.col(name).map_elements("{:.2f}".format, pl.String) for name in ("latitude", "longitude"))
    )
    assert written.select((pl.col("enrichment").str.json_path_match("$.tile") == tile).all()).item()
    assert written.select(tile.n_unique()).item() > 100
    assert written["idempotency_key"].n_unique() == stats["calls"]


def test_a_call_that_timed_out_gets_its_answer_later_and_no_work_is_done_twice():
    with DemoService(latency=0.4) as demo:
        harness = play_points(demo.url, points(600), timeout="0.25s", shards=1)
        stats = demo.stats()
    assert harness.written[NAME].height == 600
    assert stats["events"] == 600
    assert stats["repeated_calls"] >= 1


def test_a_service_that_is_down_makes_dead_letters_and_when_it_is_back_the_next_events_are_enriched():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    job = job_asking(f"http://127.0.0.1:{port}/enrich", max_size=50)
    harness, events = TestHarness(job), in_shards(points(1_000), 1)
    harness.batch(events.head(500), NOW)
    restart(harness)
    dead = harness.written[DEAD_LETTERS]
    assert (dead.height, harness.written[NAME].height) == (500, 0)
    assert dead.select(pl.col("attempts").unique(), pl.col("failed_at").unique()).row(0) == (5, NOW)
    assert dead["answer"].str.contains("ConnectError").all()
    with DemoService(port=port):
        harness.batch(events.tail(500), NOW)
    assert harness.written[NAME].height == 500
    assert accounted_for(job, harness) == 1_000


def test_a_token_of_the_workers_environment_opens_its_service_and_is_recorded_nowhere(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    token = "a-secret-token"  # noqa: S105
    monkeypatch.setenv("GEO_TOKEN", token)
    with DemoService(token=token) as demo:
        refused = play_points(demo.url, points(20)).written[DEAD_LETTERS]
        assert refused.select(pl.col("status").unique(), pl.col("attempts").unique()).row(0) == (401, 1)
        job = job_asking(demo.url, token_variable="GEO_TOKEN")  # noqa: S106 - a name
        assert play_points(demo.url, points(20), token_variable="GEO_TOKEN").written[NAME].height == 20  # noqa: S106
    assert token not in caplog.text
    assert token not in json.dumps(dict(job.parameters))
    assert demo.url not in json.dumps(dict(job.parameters))
    assert token.encode() not in cloudpickle.dumps(job)


def test_in_runs_ten_thousand_events_take_at_most_twenty_four_calls_crash_or_not(without_spark, lakehouse, monkeypatch):
    events = points(10_000)
    lakehouse.events("ride_points").parent.mkdir(parents=True)
    for part in events.iter_slices(5_000):
        part.write_delta(str(lakehouse.events("ride_points")), mode="append")
    end = NOON + timedelta(hours=1)

    def die(point):
        if point == "work: after":
            raise RuntimeError("power cut")

    with DemoService() as demo:
        job = job_asking(demo.url)
        with monkeypatch.context() as patch:
            patch.setattr(fail_points, "act", die)
            with pytest.raises(KeyfoldError, match="power cut"):
                run_job(lakehouse, job, Incremental(advance_to=end), runners=without_spark)
        lost = demo.stats()
        assert lost["calls"] >= 16

        ran = run_job(lakehouse, job, Incremental(advance_to=end), runners=without_spark)
        stats = demo.stats()
        first = pl.read_delta(str(lakehouse.table(NAME))).sort("point_idx")
        assert (ran.counts.events, ran.counts.rows[NAME], ran.counts.rows[DEAD_LETTERS]) == (10_000, 10_000, 0)
        assert first.select(events.columns).equals(events)
        # What was answered before the crash was not asked again.
        assert stats["calls"] == first["idempotency_key"].n_unique() <= 20 + 4
        assert (stats["repeated_calls"], stats["events"]) == (0, 10_000)

        again = run_job(lakehouse, job, runners=without_spark)
        assert again.counts.rows[NAME] == 0
        assert demo.stats() == stats
        balance = check_conservation(lakehouse, job)
        assert (balance.events_read, balance.in_outputs, balance.open_events, balance.late) == (10_000, 10_000, 0, 0)

        # From the start, file by file: events came in order of time, so the same batches come with the same keys.
        options = RunOptions(max_bytes_per_batch=1)
        afresh = run_job(lakehouse, job, FullRefresh(advance_to=end), options=options, runners=without_spark)
        assert len(afresh.batch_seconds) == 2
        assert pl.read_delta(str(lakehouse.table(NAME))).sort("point_idx").equals(first)
        assert demo.stats()["calls"] == 2 * stats["calls"]
        assert demo.stats()["events"] == 10_000
