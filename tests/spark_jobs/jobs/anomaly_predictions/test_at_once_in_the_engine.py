"""Predictions at once in the engine, without Spark: the same batches give the same answers, and refreshes come by themselves."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import polars as pl
import pytest

from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job_run import run_continuously, run_job
from keyfold.lakehouse import Lakehouse
from tests.keyfold.state.job_histories import History, put
from tests.lake import LOCAL
from tests.spark_jobs.jobs.anomaly_predictions.metrics import anomaly_job
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("without_spark")

TABLES = ("anomaly_predictions", "latest_predictions", "retired_models")
AT_ONCE = {"order": "arrival", "emit": "all", "forget_after": "20m", "key_groups": 3}
HISTORY = History("anomaly_predictions")


def tables(lakehouse):
    return {
        name: rows.select(sorted(rows.columns)).sort(pl.all(), descending=False).rows()
        for name in TABLES
        for rows in [pl.read_delta(str(lakehouse.table(name)))]
    }


@pytest.fixture(scope="module")
def parts():
    """Four deliveries, in each of which some values are older than what came before."""
    return HISTORY.parts()


def run_of(lakehouse, job, parts):
    for part in parts:
        put(lakehouse, "metrics", part)
        run_job(lakehouse, job, runners=LOCAL)
    return tables(lakehouse)


def test_a_full_refresh_takes_history_in_order_of_event_time(tmp_path, parts):
    arrived, refreshed = Lakehouse(tmp_path / "one"), Lakehouse(tmp_path / "other")
    job = anomaly_job(**{**AT_ONCE, "forget_after": "30d"})
    run_of(arrived, job, parts)
    run_job(arrived, job, FullRefresh(), runners=LOCAL)
    assert tables(arrived) == run_of(refreshed, job, [pl.concat(parts)])


def test_a_continuous_run_refreshes_when_it_is_due_though_nothing_comes(tmp_path, parts):
    lakehouse, stop = Lakehouse(tmp_path), threading.Event()
    job = anomaly_job(order="arrival", learn="refresh", refresh_after="1s", delay="0s")
    put(lakehouse, "metrics", parts[0])

    def learned():
        live = live_generation(lakehouse, job.name)
        done = live and live.journal.last_done()
        return done and done.total_rows["latest_predictions"] and done.next_processing_deadline is None

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_continuously, lakehouse, job, every=timedelta(hours=1), stop=stop, runners=LOCAL)
        try:
            wait_until(lambda: learned() or running.done())
        finally:
            stop.set()
        summary = running.result(60)
    assert summary.counts.events == parts[0].height
    assert len(summary.batch_seconds) == 2
    assert learned()
