"""Plot top products, revenue of windows, best-selling models, and revenue of categories."""

import dagster as dg
import polars as pl

from keyfold import Lakehouse
from keyfold.dagster.plots import MAIN, SECOND, draw, picture
from keyfold.lakehouse.reading import scan_table

_WINDOWS = 168
_MODELS = 15
_SALES = 50_000


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


def plot_models(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Plot the best-selling models: pieces, and purchases that name the model."""
    best = scan_table(lakehouse.table("model_totals")).top_k(_MODELS, by="quantity").collect(engine="streaming")
    if not best.height:
        return {}
    best = best.sort("quantity", "model", descending=[False, True])
    names = [model or "(none named)" for model in best["model"]]
    figure, (pieces, purchases) = draw(2, height=3.6)
    pieces.barh(names, best["quantity"].to_list(), color=MAIN)
    pieces.set_title("pieces bought less returned")
    purchases.barh(names, best["purchases"].to_list(), color=SECOND)
    purchases.set_yticklabels([])
    purchases.set_title("purchases that name it")
    return {"best_models": picture(figure, "Pieces and purchases of the models that sell best")}


def plot_categories(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Revenue of the last 50,000 sales by category."""
    sales = scan_table(lakehouse.table("sales_with_products")).select("time", "category", "quantity", "price")
    last = sales.top_k(_SALES, by="time").collect(engine="streaming")
    if not last.height:
        return {}
    revenue = (pl.col("quantity") * pl.col("price")).sum().alias("revenue")
    by = last.group_by(pl.col("category").fill_null("(not in the table)")).agg(revenue).sort("revenue", "category")
    figure, (panel,) = draw()
    panel.barh(by["category"].to_list(), by["revenue"].to_list(), color=MAIN)
    panel.set_title(f"revenue of the last {last.height:,} sales")
    return {"categories": picture(figure, "Revenue of each category")}
