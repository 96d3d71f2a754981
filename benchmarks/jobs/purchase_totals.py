"""`python -m benchmarks.jobs.purchase_totals`: the job beside a plain sort and running sum of all purchases.

Polars has no running set: the plain side makes, by `cum_sum` over the item, the quantities alone (`quantities`), or
also the sets (`with sets`), item by item, from the row of each model's first purchase.
"""

from datetime import timedelta

import polars as pl

from benchmarks.jobs.made_sales import batches_of, made_sales
from benchmarks.jobs.measure import compare, require_same
from keyfold.keyed.harness import TestHarness
from keyfold.keyed.parameters import build_job
from spark_jobs.jobs.purchase_totals import PURCHASE, PURCHASE_TOTALS

SALES = 1_000_000


def main() -> None:
    purchases = made_sales(SALES).select(PURCHASE.names)
    order = ["item", "event_time", "cumulative_quantity", "delta_quantity"]
    ours, theirs = keyfold([purchases], "arrival"), with_sets(purchases)
    require_same(ours.sort(order), theirs.sort(order))
    for order_of in ("arrival", "event_time"):
        for batches in (1, 10):
            cut = batches_of(purchases, batches)
            for name, plain in {"quantities": quantities, "with sets": with_sets}.items():
                compare(
                    f"purchase_totals by {order_of}, {batches} micro-batch(es), to plain {name}",
                    SALES,
                    lambda cut=cut, order_of=order_of: keyfold(cut, order_of),
                    lambda plain=plain: plain(purchases),
                )


def keyfold(batches: list[pl.DataFrame], order: str) -> pl.DataFrame:
    harness = TestHarness(build_job(PURCHASE_TOTALS, {"order": order}))
    for batch in batches:
        harness.batch(batch)
    harness.batch(advance_to=harness.watermark + timedelta(days=1))
    return harness.written["purchase_totals"]


def quantities(purchases: pl.DataFrame) -> pl.DataFrame:
    ordered = purchases.sort("item", "time", "quantity", "models")
    return ordered.with_columns(cumulative_quantity=pl.col("quantity").cum_sum().over("item"))


def with_sets(purchases: pl.DataFrame) -> pl.DataFrame:
    ordered = quantities(purchases).with_row_index("row")
    told = ordered.select("row", "item", model="models").explode("model").drop_nulls("model")
    first = told.unique(["item", "model"], keep="first", maintain_order=True)
    grown = first.select("row", "item").unique(maintain_order=True)
    pairs = grown.join(first, on="item", suffix="_first").filter(pl.col("row_first") <= pl.col("row"))
    sets = pairs.group_by("row").agg(pl.col("model").sort().alias("models"))
    return (
        ordered.drop("models")
        .join(sets, on="row", how="left", maintain_order="left")
        .select(
            "item",
            pl.col("quantity").alias("delta_quantity"),
            "cumulative_quantity",
            pl.col("models").forward_fill().over("item").fill_null([]),
            pl.col("time").alias("event_time"),
        )
    )


if __name__ == "__main__":
    main()
