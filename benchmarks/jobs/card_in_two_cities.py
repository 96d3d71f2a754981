"""`python -m benchmarks.jobs.card_in_two_cities`: compare the job with DuckDB's self-join of the payments."""

from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np
import polars as pl

from benchmarks.jobs.measure import batches_of, compare, require_same
from keyfold import TestHarness, build_job
from keyfold.times import micros
from spark_jobs.jobs.card_in_two_cities import CARD_IN_TWO_CITIES
from spark_jobs.simulation.contract import HOUR
from spark_jobs.simulation.payments import payments_table

CARDS, HOURS = 75_000, 48
BEGIN = micros(datetime(2026, 1, 1, tzinfo=UTC))

QUERY = """
    SELECT a.card, 'two_cities' AS pattern, a.time AS first_time, b.time AS last_time, a.city AS first_city,
        b.city AS last_city, a.amount AS first_amount, b.amount AS last_amount, a.merchant AS first_merchant,
        b.merchant AS last_merchant, a.payment_id AS first_payment_id, b.payment_id AS last_payment_id
    FROM ordered a JOIN ordered b ON a.card = b.card AND b.number > a.number AND b.city <> a.city
        AND b.time <= a.time + INTERVAL 10 MINUTES
    QUALIFY row_number() OVER (PARTITION BY a.card, a.number ORDER BY b.number) = 1"""


def main() -> None:
    payments, _ = payments_table(np.random.default_rng(1), CARDS, BEGIN, BEGIN + HOURS * HOUR)
    columns = ["card", "first_time", "first_payment_id"]
    require_same(keyfold([payments]).sort(columns), plain(payments).sort(columns))
    for batches in (1, 10):
        cut = batches_of(payments, batches)
        compare(
            f"card_in_two_cities, {batches} micro-batch(es)",
            payments.height,
            lambda cut=cut: keyfold(cut),
            lambda: plain(payments),
        )


def keyfold(batches: list[pl.DataFrame]) -> pl.DataFrame:
    job = build_job(CARD_IN_TWO_CITIES)
    harness = TestHarness(job)
    for batch in batches:
        harness.batch(batch.select(job.events.names))
    harness.batch(advance_to=harness.watermark + timedelta(days=1))
    return harness.written["card_in_two_cities"]


def plain(payments: pl.DataFrame) -> pl.DataFrame:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'; SET threads = 2")
        database.register("payments", payments.to_arrow())
        database.execute(
            "CREATE TABLE ordered AS SELECT *, row_number() OVER (PARTITION BY card ORDER BY time, city, amount, "
            "merchant NULLS FIRST, payment_id) AS number FROM payments"
        )
        return database.sql(QUERY).pl()


if __name__ == "__main__":
    main()
