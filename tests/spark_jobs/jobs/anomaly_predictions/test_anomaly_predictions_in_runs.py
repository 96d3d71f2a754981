"""Anomaly predictions of real series from landing files to tables, in one run and over restarts."""

import os
from datetime import timedelta

import polars as pl

from keyfold.ingestion import ingest
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.reporting.conservation import check_conservation
from keyfold.keyed.runner import run_job
from spark_jobs.streams import METRICS
from tests.spark_jobs.jobs.anomaly_predictions import anomaly_oracle
from tests.spark_jobs.jobs.anomaly_predictions.anomaly_oracle import Settings
from tests.spark_jobs.jobs.anomaly_predictions.test_anomaly_predictions import (
    SERIES,
    assert_rows_agree,
    frame,
    job_of,
    real_series,
)


def test_real_series_over_restarts_give_what_the_definition_says(without_spark, new_home, tmp_path, real_data):
    readings = real_series(real_data, SERIES[:2])
    end = max(reading["timestamp"] for reading in readings) + timedelta(days=31)
    definition = Settings(learn="every_interval", period=timedelta(hours=6), min_events=30)
    job = job_of(definition, key_groups=2)
    answer = anomaly_oracle.answer(readings, end, definition)
    half = len(readings) // 2
    for name, parts in {"once": [readings], "restarted": [readings[:half], readings[half:]]}.items():
        lakehouse = new_home(name)
        for number, part in enumerate(parts):
            land(tmp_path / f"landing-{name}", number, part)
            ingest(lakehouse, METRICS, tmp_path / f"landing-{name}", runners=without_spark)
            run_job(lakehouse, job, Incremental(advance_to=end if part is parts[-1] else None), runners=without_spark)
            assert check_conservation(lakehouse, job).balanced
        tables = {table: pl.read_delta(str(lakehouse.table(table))) for table in job_tables(job)}
        assert_rows_agree(in_order(tables["anomaly_predictions"]), answer.output)
        latest = tables["latest_predictions"].drop("low", "high").sort("key")
        assert_rows_agree(latest.to_dicts(), answer.latest.values())
        assert sorted(tables["retired_models"].rows()) == sorted(answer.retired)
        balance = check_conservation(lakehouse, job)
        assert (balance.events_read, balance.open_events, balance.late) == (len(readings), answer.in_models, 0)


def job_tables(job):
    return [table.name for table in job.tables if not table.name.startswith("late.")]


def in_order(rows):
    return rows.sort("key", "event_time", "value").to_dicts()


def land(landing, number, readings):
    """Write a file of readings of several series, which has arrived after those before it."""
    landing.mkdir(exist_ok=True)
    path = landing / f"{number}.csv"
    frame(readings).with_columns(pl.col("timestamp").dt.strftime("%Y-%m-%d %H:%M:%S")).write_csv(path)
    os.utime(path, (1_800_000_000 + number * 10, 1_800_000_000 + number * 10))
