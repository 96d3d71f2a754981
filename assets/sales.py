"""The sales group: sales, the best-selling products of each hour, and totals per item and model."""

from assets.plots.products import plot_products
from keyfold import project_suites
from keyfold.dagster import JobAssets, Partitions, keyfold_group
from spark_jobs.jobs.model_totals import MODEL_TOTALS
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTALS
from spark_jobs.jobs.top_products import TOP_PRODUCTS
from spark_jobs.streams import SALES

GROUP = keyfold_group(
    "sales",
    owners=("team:sales",),
    streams=[SALES],
    jobs=[
        # Each day is reported when it is complete.
        JobAssets(TOP_PRODUCTS, plot=plot_products, partitions=Partitions("window_start", start="2026-11-01")),
        PURCHASE_TOTALS,
        MODEL_TOTALS,
    ],
    suites=project_suites(),
)
