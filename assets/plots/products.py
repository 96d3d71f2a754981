"""Plot top products and revenue of windows."""

import dagster as dg
import polars as pl

from keyfold import Lakehouse, scan_table
from keyfold.dagster.plots import MAIN, SECOND, draw, picture

_WINDOWS = 168


def plot_products(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Plot the top products of the newest closed window, and the revenue of the last 168 windows."""
    windows = (
        scan_table(lakehouse.table("sales_windows")).top_k(_WINDOWS, by="window_start").collect(engine="streaming")
    )
    if not windows.height:
        return {}
    windows = windows.sort("window_start")
    newest = windows["window_start"][-1]
    ranked = scan_table(lakehouse.table("top_products")).filter(pl.col("window_start") == newest)
    best = ranked.collect(engine="streaming").sort("rank", descending=True)
    figure, (top, revenue) = draw(2)
    top.barh(best["product"].to_list(), best["quantity"].to_list(), color=MAIN)
    top.set_title(f"best sold from {newest:%Y-%m-%d %H:%M} UTC, pieces")
    revenue.step(windows["window_end"].to_numpy(), windows["revenue"].to_numpy(), color=SECOND)
    revenue.set_title("revenue of each window")
    revenue.tick_params(axis="x", rotation=30)
    return {"best_sold": picture(figure, "Best-selling products and revenue of each window")}
