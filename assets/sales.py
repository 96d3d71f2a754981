"""The sales: what is sold as it is, the best-selling products of each hour, and totals of each item."""

from assets.keyed_asset import TableDoc, conservation_check, keyed_assets
from assets.plots.products import plot_products
from assets.stream_columns import STREAM_COLUMNS
from assets.streams import stream_assets, stream_check
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTALS
from spark_jobs.jobs.top_products import TOP_PRODUCTS
from spark_jobs.streams import SALES

GROUP = "sales"
OWNERS = ("team:sales",)
STREAM = SALES
JOBS = (TOP_PRODUCTS, PURCHASE_TOTALS)

_WINDOW = {
    "window_start": "Start of the window (UTC)",
    "window_end": "End of the window, which is not in it (UTC)",
}
_RANKED = {
    **_WINDOW,
    "rank": "Place among the window's products, from 1: by quantity, ties by product",
    "product": "The item",
    "quantity": "Pieces sold less pieces returned",
    "revenue": "Sum of quantity times price, in the shop's currency",
}
_RANKED_OF = {
    "window_start": ("time",),
    "window_end": ("time",),
    "rank": ("quantity", "item"),
    "product": ("item",),
    "quantity": ("quantity",),
    "revenue": ("quantity", "price"),
}

ASSETS = [
    *stream_assets(
        SALES,
        group=GROUP,
        owners=OWNERS,
        description="Valid sales and returns: typed and checked. A line that comes twice is two sales: nothing names it.",
    ),
    keyed_assets(
        TOP_PRODUCTS,
        group=GROUP,
        owners=OWNERS,
        tables={
            "top_products": TableDoc(TOP_PRODUCTS.description, _RANKED, _RANKED_OF),
            "latest_top_products": TableDoc(
                "The ranks of windows that are still open, as they stand, and the final ones of those that are over.",
                {**_RANKED, "is_open": "Whether the window may still change"},
                {**_RANKED_OF, "is_open": ("time",)},
            ),
            "sales_windows": TableDoc(
                "One row a window that is over: all of its sales.",
                {
                    **_WINDOW,
                    "n_sales": "Sales and returns",
                    "n_products": "Products among them",
                    "quantity": "Pieces sold less pieces returned",
                    "revenue": "Sum of quantity times price, in the shop's currency",
                },
                {
                    "window_start": ("time",),
                    "window_end": ("time",),
                    "n_sales": ("time",),
                    "n_products": ("item",),
                    "quantity": ("quantity",),
                    "revenue": ("quantity", "price"),
                },
            ),
            "late.top_products": TableDoc(
                "Sales that came after their window had been ranked, added up by window and product.",
                {
                    "window_start": "Start of the window that they would have been in (UTC)",
                    "item": "The item",
                    "time": "Event time of the newest of them (UTC)",
                    "quantity": "Pieces sold less pieces returned",
                    "revenue": "Sum of quantity times price, in the shop's currency",
                    "n_events": "How many sales the row stands for",
                },
            ),
        },
        plot=plot_products,
    ),
    keyed_assets(
        PURCHASE_TOTALS,
        group=GROUP,
        owners=OWNERS,
        tables={
            "purchase_totals": TableDoc(
                PURCHASE_TOTALS.description,
                {
                    "item": "The item",
                    "delta_quantity": "Pieces in this purchase; negative for a return",
                    "cumulative_quantity": "Pieces of the item so far, this purchase included",
                    "models": "Variants of the item seen so far, sorted",
                    "event_time": "When it was bought (UTC)",
                },
                {
                    "item": ("item",),
                    "delta_quantity": ("quantity",),
                    "cumulative_quantity": ("quantity", "time"),
                    "models": ("models", "time"),
                    "event_time": ("time",),
                },
            ),
            "latest_purchase_totals": TableDoc(
                "The totals of each item as they stand.",
                {
                    "item": "The item",
                    "quantity": "Pieces bought less pieces returned, in all",
                    "models": STREAM_COLUMNS["sales"]["models"].replace("in this sale", "seen, sorted"),
                },
                {"item": ("item",), "quantity": ("quantity",), "models": ("models",)},
            ),
        },
    ),
]

CHECKS = [stream_check(SALES), conservation_check(TOP_PRODUCTS), conservation_check(PURCHASE_TOTALS)]
