"""`python -m benchmarks.jobs.top_products`: the job beside one plain group_by, sort and rank of all sales.

Both are given the window's start and the revenue of a sale, which Spark derives; the job's revenue is exact decimals,
the plain one's is floats.
"""

from datetime import timedelta

import polars as pl

from benchmarks.jobs.made_sales import batches_of, made_sales
from benchmarks.jobs.measure import compare, require_same
from keyfold.keyed.harness import TestHarness
from keyfold.keyed.parameters import build_job
from spark_jobs.jobs.top_products import PRODUCT_SALE, TOP_PRODUCTS, sum_up

SALES = 1_000_000
K = 10


def main() -> None:
    sales = made_sales(SALES).with_columns(window_start=pl.col("time").dt.truncate("1h"))
    price = pl.col("price").cast(pl.Decimal(18, 9))
    events = sales.with_columns(
        revenue=pl.col("quantity").cast(pl.Decimal(19, 0)) * price, n_events=pl.lit(1, pl.Int64)
    ).select(PRODUCT_SALE.names)
    floats = sales.with_columns(revenue=pl.col("quantity") * pl.col("price"))
    require_same(keyfold([events]), plain(floats))
    for batches in (1, 10):
        cut = batches_of(events, batches)
        compare(f"top_products, {batches} micro-batch(es)", SALES, lambda cut=cut: keyfold(cut), lambda: plain(floats))


def keyfold(batches: list[pl.DataFrame]) -> pl.DataFrame:
    harness = TestHarness(build_job(TOP_PRODUCTS, {"k": K}))
    for batch in batches:
        harness.batch(sum_up(batch).select(PRODUCT_SALE.names))
    harness.batch(advance_to=harness.watermark + timedelta(days=1))
    return harness.written["top_products"].select(_SAME)


def plain(sales: pl.DataFrame) -> pl.DataFrame:
    sold = sales.group_by("window_start", "item").agg(pl.col("quantity").sum(), pl.col("revenue").sum())
    ordered = sold.sort("window_start", "quantity", "item", descending=[False, True, False])
    rank = pl.int_range(1, pl.len() + 1).over("window_start").alias("rank")
    return ordered.with_columns(rank).filter(pl.col("rank") <= K).rename({"item": "product"}).select(_SAME)


_SAME = ("window_start", "rank", "product", "quantity", pl.col("revenue").round(2))

if __name__ == "__main__":
    main()
