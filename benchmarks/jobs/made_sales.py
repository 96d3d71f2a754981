"""Sales in any number, for benchmarks: a shop whose few favourites sell most."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from keyfold.keyed.codec import polars_schema
from spark_jobs.streams import SALES

SALES_A_SECOND = 2
START = datetime(2026, 1, 1, tzinfo=UTC)


def made_sales(sales: int, items: int = 4000, seed: int = 1) -> pl.DataFrame:
    """Sales in order of event time, in the columns of the stream: one model told with most, three to five an item."""
    rng = np.random.default_rng(seed)
    names = pl.Series([f"item-{number:05d}" for number in range(items)])
    item = np.minimum((items * rng.random(sales) ** 2).astype(np.int64), items - 1)
    model = item % 97 + rng.integers(0, 3 + item % 3)
    models = pl.Series([f"model {number}" for number in range(102)])[model]
    seconds = np.sort(rng.integers(0, max(1, sales // SALES_A_SECOND), sales))
    frame = pl.DataFrame(
        {
            "item": names[item],
            "quantity": rng.integers(-2, 12, sales),
            "models": pl.select(pl.when(pl.Series(rng.random(sales) < 0.95)).then(pl.concat_list(models))).to_series(),
            "time": pl.select(START + pl.Series(seconds) * pl.lit(timedelta(seconds=1))).to_series(),
            "price": np.round(rng.random(sales) * 20, 2),
        }
    )
    missing = [pl.lit(None).alias(name) for name in SALES.schema.names if name not in frame.columns]
    return frame.select(pl.all(), *missing).select(SALES.schema.names).cast(pl.Schema(polars_schema(SALES.schema)))


def batches_of(events: pl.DataFrame, batches: int) -> list[pl.DataFrame]:
    """Cut events into micro-batches of one size."""
    rows = -(-events.height // batches)
    return [events.slice(start, rows) for start in range(0, events.height, rows)]
