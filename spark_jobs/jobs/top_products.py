"""Rank the K best-selling items of each tumbling window when the window closes.

Windows are `window` long and aligned to 1970 UTC; a window's end is exclusive. The key is the window, so that ranks cover all
its products. `combine` sums by window and product before the shuffle, so that little is shuffled.

State is one row per product of an open window. A window closes when the watermark reaches its end. An event is late only if
its window was closed before it arrived; an event behind the watermark in an open window counts.

Returns have a negative quantity and are subtracted; a product whose total is zero or less is ranked like any other. Revenue is
summed as exact decimals, so that it does not depend on the order of the sales.
"""

from datetime import timedelta

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import TIMESTAMP, Append, Duration, EventTimeParameters, KeyedJob, Upsert, required, with_parameters
from keyfold.operators import Top, sum, windows
from spark_jobs.streams import SALES

TOP_PRODUCT = pa.schema(
    [
        required("window_start", TIMESTAMP, "Start of the window (UTC)"),
        required("window_end", TIMESTAMP, "End of the window, exclusive (UTC)"),
        required("rank", pa.int64(), "Place among the window's products, from 1: by quantity, ties by product"),
        required("product", pa.string(), "The item"),
        required("quantity", pa.int64(), "Pieces sold less pieces returned"),
        required("revenue", pa.float64(), "Sum of quantity times price", unit="in the shop's currency"),
    ]
)

LATEST_TOP_PRODUCT = pa.schema([*TOP_PRODUCT, required("is_open", pa.bool_(), "Whether the window may still change")])

SALES_WINDOW = pa.schema(
    [
        *map(TOP_PRODUCT.field, ("window_start", "window_end")),
        required("n_sales", pa.int64(), "Sales and returns"),
        required("n_products", pa.int64(), "Products among them"),
        *map(TOP_PRODUCT.field, ("quantity", "revenue")),
    ]
)


class TopProductsParameters(EventTimeParameters):
    """Parameters of `top_products`."""

    # Both need a refresh: open windows were cut by `window`, and with a smaller `k` the ranks of `latest_top_products` beyond
    # it would stay for ever.
    window: Duration = Field(timedelta(hours=1), description="Length of a window; windows are aligned to 1970 UTC")
    k: int = Field(10, ge=1, le=1_000_000, description="Number of products that are ranked in a window")


def build(parameters: TopProductsParameters) -> KeyedJob:
    """The best-selling products of each time window, by quantity, with their revenue."""
    ranks = Upsert(
        LATEST_TOP_PRODUCT,
        ("window_start", "rank"),
        name="latest_top_products",
        description="The current ranks of open windows, and the final ranks of closed windows.",
    )
    sums = Append(
        SALES_WINDOW,
        name="sales_windows",
        events=pl.col("n_sales").sum(),
        description="One row per closed window, with the totals of all its sales.",
    )
    return windows(
        "top_products",
        SALES,
        {"quantity": sum("quantity"), "revenue": sum(_REVENUE)},
        length=parameters.window,
        by="item",
        top=Top(n=parameters.k, highest="quantity", whole=sums, latest=ranks),
        output=TOP_PRODUCT,
        then={
            "product": pl.col("item"),
            "revenue": pl.col("revenue").cast(pl.Float64),
            "n_sales": pl.col("n_events"),
            "n_products": pl.col("n_groups"),
        },
    )


# Exact currency, with nine decimals: enough for any int64 quantity at any price below 10⁹.
# A price that does not fit (10⁹ or more, or not a number) counts as missing. All others, with nine decimals, times any 64-bit
# quantity have at most 38 digits, so that no product overflows.
_FITS = pl.col("price").is_finite() & (pl.col("price").abs() < 1e9)
_REVENUE = pl.col("quantity").cast(pl.Decimal(38, 0)) * pl.when(_FITS).then(pl.col("price")).cast(pl.Decimal(38, 9))

TOP_PRODUCTS = with_parameters(build)
