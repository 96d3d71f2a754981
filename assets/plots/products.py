"""Top products of the last window, and what every window brought."""

import dagster as dg
import polars as pl

from assets.plots.figure import MAIN, SECOND, draw, picture
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.lakehouse.reading import scan_table

_WINDOWS = 168


def plot_products(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """The products of the newest window that is over, and the revenue of the last 168."""
    windows = scan_table(lakehouse.table("sales_windows")).top_k(_WINDOWS, by="window_start").collect()
    if not windows.height:
        return {}
    windows = windows.sort("window_start")
    newest = windows["window_start"][-1]
    ranked = scan_table(lakehouse.table("top_products")).filter(pl.col("window_start") == newest)
    best = ranked.collect().sort("rank", descending=True)
    figure, (top, revenue) = draw(2)
    top.barh(best["product"].to_list(), best["quantity"].to_list(), color=MAIN)
    top.set_title(f"best sold from {newest:%Y-%m-%d %H:%M} UTC, pieces")
    revenue.step(windows["window_end"].to_numpy(), windows["revenue"].to_numpy(), color=SECOND)
    revenue.set_title("revenue of each window")
    revenue.tick_params(axis="x", rotation=30)
    return {"best_sold": picture(figure, "Best-selling products and revenue of each window")}
