"""Sales for tests: real ones, straight from the shop's files into the stream's columns, and made ones."""

from datetime import timedelta
from typing import Any

import polars as pl

from keyfold import build_job
from keyfold.keyed.rows.codec import polars_schema
from spark_jobs.jobs.top_products import TOP_PRODUCTS
from spark_jobs.streams import SALES
from tests.shop import NOON


def sale(item: str = "cup", quantity: int = 1, minutes: float = 0, **more: Any) -> dict[str, Any]:
    """A sale some minutes after noon."""
    return {"item": item, "quantity": quantity, "time": NOON + timedelta(minutes=minutes), **more}


def sales_frame(sales: list[dict[str, Any]]) -> pl.DataFrame:
    """Sales in the columns of the event table."""
    return pl.DataFrame(sales, schema=polars_schema(SALES.schema), orient="row")


def with_window(sales: pl.DataFrame, window: timedelta = timedelta(hours=1)) -> pl.DataFrame:
    """Sales with the columns that `top_products` derives, worked out in Polars."""
    length = window // timedelta(microseconds=1)
    # NaN is not below it: Polars takes it for the largest of numbers.
    price = pl.when(pl.col("price").abs() < 1e9).then("price").cast(pl.Decimal(18, 9))
    return sales.with_columns(
        window_start=(pl.col("time").dt.epoch("us") // length * length).cast(pl.Datetime("us", "UTC")),
        revenue=(pl.col("quantity").cast(pl.Decimal(19, 0)) * price).cast(pl.Decimal(38, 9)),
        n_events=pl.lit(1, pl.Int64),
    ).select(build_job(TOP_PRODUCTS).columns.names)
