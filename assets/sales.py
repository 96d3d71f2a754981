"""The sales group: sales, the best-selling products of each hour, and totals per item and model."""

from assets.plots.products import plot_models, plot_products
from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from keyfold.dagster.assets.streams import stream_assets, stream_check
from spark_jobs.jobs.model_totals import MODEL_TOTALS
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTALS
from spark_jobs.jobs.top_products import TOP_PRODUCTS
from spark_jobs.streams import SALES

GROUP = "sales"
OWNERS = ("team:sales",)
STREAM = SALES
JOBS = (TOP_PRODUCTS, PURCHASE_TOTALS, MODEL_TOTALS)

ASSETS = [
    *stream_assets(SALES, group=GROUP, owners=OWNERS),
    keyed_assets(TOP_PRODUCTS, group=GROUP, owners=OWNERS, plot=plot_products),
    keyed_assets(PURCHASE_TOTALS, group=GROUP, owners=OWNERS),
    keyed_assets(MODEL_TOTALS, group=GROUP, owners=OWNERS, plot=plot_models),
]
CHECKS = [stream_check(SALES), *(conservation_check(job) for job in JOBS)]
