"""Sales for tests: real ones, straight from the shop's files into the stream's columns, and made ones."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from keyfold import build_job
from keyfold.keyed.rows.codec import polars_schema
from spark_jobs.jobs.top_products import TOP_PRODUCTS
from spark_jobs.streams import SALES

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


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


def retail(real_data: Path, every: int) -> duckdb.DuckDBPyConnection:
    """A database with the table `sales` in the stream's columns: all days of every so manieth of the shop's items.

    Oracles go item by item. An eighth of the items has all kinds of rows: returns, ties, models and customers that are missing.
    """
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'; SET threads = 1")
    database.execute(
        """
        CREATE TABLE sales AS SELECT
            StockCode AS item,
            Quantity AS quantity,
            CASE WHEN coalesce(Description, '') = '' THEN NULL ELSE [Description] END AS models,
            InvoiceDate AT TIME ZONE 'UTC' AS time,
            UnitPrice AS price,
            InvoiceNo AS invoice,
            CustomerID AS customer,
            Country AS country
        FROM read_csv(?, header = true, quote = '"', escape = '"', columns = {
            'InvoiceNo': 'VARCHAR', 'StockCode': 'VARCHAR', 'Description': 'VARCHAR', 'Quantity': 'BIGINT',
            'InvoiceDate': 'TIMESTAMP', 'UnitPrice': 'DOUBLE', 'CustomerID': 'VARCHAR', 'Country': 'VARCHAR'})
        """,
        [str(real_data / "retail" / "*.csv.gz")],
    )
    database.execute(
        "DELETE FROM sales WHERE item NOT IN (SELECT item FROM (SELECT item, dense_rank() OVER (ORDER BY item) AS place FROM sales)"
        " WHERE place % ? = 0)",
        [every],
    )
    kinds = "SELECT bool_or(quantity < 0), bool_or(models IS NULL), bool_or(customer IS NULL), count(DISTINCT (item, time)) < count(*)"
    assert all(database.execute(f"{kinds} FROM sales").fetchall()[0])
    return database


def retail_days(database: duckdb.DuckDBPyConnection) -> list[pl.DataFrame]:
    """The shop's sales, a frame a day in the order of days."""
    sales = database.sql("SELECT * FROM sales ORDER BY time").pl().cast(pl.Schema(polars_schema(SALES.schema)))
    days = sales.with_columns(day=pl.col("time").dt.date()).partition_by("day", include_key=False)
    return [day.select(SALES.schema.names) for day in days]
