"""The jobs on sales, end to end: real sales in a Delta table, Spark, restarts, one split and another, one answer."""

import math
from datetime import UTC, datetime

import polars as pl
import pytest

from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.parameters import build_job
from keyfold.keyed.reporting.conservation import check_conservation
from keyfold.keyed.runner import RunOptions, run_job
from keyfold.testing import merged, play
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.jobs.model_totals import MODEL_TOTALS
from spark_jobs.jobs.purchase_totals import PURCHASE, PURCHASE_TOTALS
from spark_jobs.jobs.top_products import TOP_PRODUCTS
from tests.spark_jobs.jobs.sales_data import retail, retail_days, sale, sales_frame, with_window

# In `make test` the demo runs every job on Spark, `model_totals` with several keys of an event among them; the jobs' own
# tests have these sales without Spark.
pytestmark = [pytest.mark.long, pytest.mark.slow]

END = datetime(2011, 1, 1, tzinfo=UTC)
A_FILE_A_BATCH = RunOptions(max_bytes_per_batch=1)


@pytest.fixture(scope="module")
def days(real_data):
    """Real days, and in the last some sales whose price is none, too much for an exact number, or hardly anything."""
    days = retail_days(retail(real_data))[:3]
    prices = [None, math.nan, math.inf, 1e9, -1e9, 999_999_999.0, 0.1, 1e-9, 2.675]
    odd = [sale(f"odd-{place % 3}", 3, price=price) for place, price in enumerate([*prices, *prices])]
    moment = days[-1]["time"].max()
    return [*days[:-1], pl.concat([days[-1], sales_frame(odd).with_columns(time=pl.lit(moment))])]


def run_in_parts(spark, lakehouse, job, parts, options=None):
    """Run the job once for each part of the sales, as they come, and at last let event time reach the end."""
    lakehouse.events("sales").parent.mkdir(parents=True)
    for number, part in enumerate(parts, start=1):
        for day in part:
            day.write_delta(str(lakehouse.events("sales")), mode="append")
        run_job(spark, lakehouse, job, Incremental(advance_to=END if number == len(parts) else None), options=options)
    balance = check_conservation(spark, lakehouse, job)
    assert balance.balanced
    assert balance.events_read == sum(day.select(job.copies).item() for part in parts for day in part)
    # Totals that keep no events count them in state.
    assert (balance.open_events, balance.late) == (balance.events_read if job.name == "model_totals" else 0, 0)
    return {table.name: pl.read_delta(str(lakehouse.table(table.name))) for table in job.tables[:-1]}


JOBS = pytest.mark.parametrize(
    ("template", "parameters", "events"),
    [
        (TOP_PRODUCTS, {"k": 5}, with_window),
        (PURCHASE_TOTALS, {"order": "event_time"}, lambda sales: sales.select(PURCHASE.names)),
        (MODEL_TOTALS, {}, lambda sales: sales),
        (EVENT_INDEX, {"stream": "sales", "key": ["item"]}, lambda sales: sales),
        (EVENT_INDEX, {"stream": "sales", "key": ["item"], "window": "1h every 20m"}, lambda sales: sales),
    ],
    ids=lambda value: value["window"] if isinstance(value, dict) and "window" in value else getattr(value, "name", ""),
)


@JOBS
def test_real_sales_in_many_batches_and_over_a_restart_give_the_answer_of_the_harness(
    spark, new_home, days, template, parameters, events
):
    job = build_job(template, {"key_groups": 4, **parameters})
    found = run_in_parts(spark, new_home("in_parts"), job, [days[:1], days[1:]], A_FILE_A_BATCH)
    check_against_the_harness(found, job, events(pl.concat(days)))


@JOBS
def test_real_sales_in_one_batch_give_the_answer_of_the_harness(spark, new_home, days, template, parameters, events):
    job = build_job(template, {"key_groups": 4, **parameters})
    found = run_in_parts(spark, new_home("at_once"), job, [[pl.concat(days)]])
    check_against_the_harness(found, job, events(pl.concat(days)))


def check_against_the_harness(found, job, events):
    harness = play(job, [events], END)
    for table in job.tables[:-1]:
        rows = merged(harness, job, table.name) if table.key else harness.written[table.name]
        expected = rows.sort(rows.columns)
        assert expected.height > 0
        assert found[table.name].select(rows.columns).sort(rows.columns).equals(expected)
