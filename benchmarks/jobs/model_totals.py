"""`python -m benchmarks.jobs.model_totals`: the job beside a plain `explode` and `group_by` of all purchases.

What is measured is the map side too, which workers do on Spark: copies, one for each model, and the combiner's sums.
"""

import polars as pl

from benchmarks.jobs.made_sales import batches_of, made_sales
from benchmarks.jobs.measure import compare, require_same
from keyfold.keyed.harness import TestHarness, in_copies
from keyfold.keyed.parameters import build_job
from spark_jobs.jobs.model_totals import MODEL_TOTALS, sum_up

SALES = 1_000_000


def main() -> None:
    one = made_sales(SALES).select("time", "quantity", "models")
    # Three models to a purchase: its own, and those of the two purchases after it.
    models = pl.col("models").list
    three = one.with_columns(
        pl.concat_list(models.first(), models.first().shift(-1), models.first().shift(-2)).alias("models")
    )
    for name, sales in {"one model a purchase": one, "three": three}.items():
        require_same(keyfold([sales]).sort("model"), plain(sales).sort("model"))
        for batches in (1, 10):
            cut = batches_of(sales, batches)
            compare(
                f"model_totals, {name}, {batches} micro-batch(es)",
                SALES,
                lambda cut=cut: keyfold(cut),
                lambda sales=sales: plain(sales),
            )


def keyfold(batches: list[pl.DataFrame]) -> pl.DataFrame:
    job = build_job(MODEL_TOTALS)
    harness = TestHarness(job)
    for batch in batches:
        harness.batch(sum_up(in_copies(job, batch)).select(job.events.names))
    return harness.state.select(job.output.names)


def plain(sales: pl.DataFrame) -> pl.DataFrame:
    told = sales.with_columns(model=pl.col("models").list.drop_nulls().list.unique())
    copies = told.select("quantity", "time", "model").explode("model", empty_as_null=True, keep_nulls=True)
    return copies.group_by(pl.col("model").fill_null("")).agg(
        pl.col("quantity").sum(), pl.len().cast(pl.Int64).alias("purchases"), pl.col("time").max().alias("latest")
    )


if __name__ == "__main__":
    main()
