"""Rank the K best-selling items of each tumbling window when the window closes.

Windows are `window` long and aligned to 1970 UTC; a window's end is exclusive. The key is the window, so that ranks cover all
its products. `combine` sums by window and product before the shuffle, so that little is shuffled.

State is one row per product of an open window. A window closes when the watermark reaches its end. An event is late only if
its window was closed before it arrived; an event behind the watermark in an open window counts.

Returns have a negative quantity and are subtracted; a product whose total is zero or less is ranked like any other. Revenue is
summed as exact decimals, so that it does not depend on the order of the sales.
"""

from datetime import timedelta
from functools import partial

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import Clock, JobTemplate, KeyedJob, OutputTable, Step, column, required
from keyfold.keyed.job import Duration, EventTimeParameters
from keyfold.keyed.rows.exact_sums import TotalTooLargeError, summed
from keyfold.stream import TIMESTAMP
from keyfold.times import period_start
from spark_jobs.streams import SALES

REVENUE = pa.decimal128(38, 9)
"""Exact currency, with nine decimals: enough for any int64 quantity at any price below 10⁹."""

PRODUCT_SALE = pa.schema(
    [
        required("window_start", TIMESTAMP, "Start of the window of the sales (UTC)", made_of="time"),
        required("item", pa.string(), "The item", made_of="item"),
        required("time", TIMESTAMP, "Event time of the newest sale (UTC)", made_of="time"),
        required("quantity", pa.int64(), "Pieces sold less pieces returned", made_of="quantity"),
        column(
            "revenue", REVENUE, "Sum of quantity times price", unit="in the shop's currency", made_of="quantity price"
        ),
        required("n_events", pa.int64(), "Number of sales in the row", made_of="time"),
    ]
)
"""One sale, or several sales of a product and window that are summed already (`time` is then the newest)."""

OPEN_PRODUCT = pa.schema(
    [
        pa.field("window_start", TIMESTAMP, nullable=False),
        pa.field("item", pa.string(), nullable=False),
        pa.field("quantity", pa.int64(), nullable=False),
        pa.field("revenue", REVENUE, nullable=False),
        pa.field("n_events", pa.int64(), nullable=False),
        pa.field("deadline", TIMESTAMP, nullable=False),
    ]
)
"""The sums of a product in an open window; the deadline is the window's end."""

TOP_PRODUCT = pa.schema(
    [
        required("window_start", TIMESTAMP, "Start of the window (UTC)", made_of="time"),
        required("window_end", TIMESTAMP, "End of the window, exclusive (UTC)", made_of="time"),
        required(
            "rank",
            pa.int64(),
            "Place among the window's products, from 1: by quantity, ties by product",
            made_of="quantity item",
        ),
        required("product", pa.string(), "The item", made_of="item"),
        required("quantity", pa.int64(), "Pieces sold less pieces returned", made_of="quantity"),
        required(
            "revenue",
            pa.float64(),
            "Sum of quantity times price",
            unit="in the shop's currency",
            made_of="quantity price",
        ),
    ]
)

LATEST_TOP_PRODUCT = pa.schema(
    [
        *TOP_PRODUCT,
        required("is_open", pa.bool_(), "Whether the window may still change", made_of="time"),
    ]
)

SALES_WINDOW = pa.schema(
    [
        *map(TOP_PRODUCT.field, ("window_start", "window_end")),
        required("n_sales", pa.int64(), "Sales and returns", made_of="time"),
        required("n_products", pa.int64(), "Products among them", made_of="item"),
        *map(TOP_PRODUCT.field, ("quantity", "revenue")),
    ]
)


class TopProductsParameters(EventTimeParameters):
    """Parameters of `top_products`."""

    window: Duration = Field(timedelta(hours=1), description="Length of a window; windows are aligned to 1970 UTC")
    k: int = Field(10, ge=1, le=1_000_000, description="Number of products that are ranked in a window")


def build(parameters: TopProductsParameters) -> KeyedJob:
    """The best-selling products of each time window, by quantity, with their revenue."""
    return KeyedJob(
        name="top_products",
        stream=SALES,
        key=("window_start",),
        event_time="time",
        events=PRODUCT_SALE,
        state=OPEN_PRODUCT,
        output=TOP_PRODUCT,
        step=partial(rank_products, parameters=parameters),
        derived={
            "window_start": period_start(pl.col("time"), parameters.window),
            "revenue": _REVENUE,
            "n_events": pl.lit(1, pl.Int64),
        },
        combine=sum_up,
        event_count=pl.col("n_events").sum(),
        step_decides_late=True,
        side_outputs=(
            OutputTable(
                "latest_top_products",
                LATEST_TOP_PRODUCT,
                "upsert",
                ("window_start", "rank"),
                description="The current ranks of open windows, and the final ranks of closed windows.",
            ),
            OutputTable(
                "sales_windows",
                SALES_WINDOW,
                events=pl.col("n_sales").sum(),
                description="One row per closed window, with the totals of all its sales.",
            ),
        ),
        late_description="Sales that arrived after their window had closed, summed by window and product.",
        output_events=pl.lit(0),
        state_events=pl.col("n_events").sum(),
        # No parameter can be changed by a move: open windows were cut by `window`, and with a smaller `k` the ranks of
        # `latest_top_products` beyond it would stay for ever.
        **parameters.settings(),
    )


TOP_PRODUCTS = JobTemplate("top_products", TopProductsParameters, build)


def sum_up(sales: pl.DataFrame) -> pl.DataFrame:
    """Sum the sales of a product and window to one row (the combiner)."""
    try:
        return summed(sales, ["window_start", "item"], _TOTALS, pl.col("time").max())
    except TotalTooLargeError:
        return sales  # the step knows the total, in which it may fit


def rank_products(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, parameters: TopProductsParameters) -> Step:
    """Run the step: every sale is in the row of a closed window, in state, or late."""
    window_end = pl.col("window_start") + parameters.window
    # Decided by the watermark before these sales, so that results do not depend on batch boundaries.
    was_over = window_end <= clock.late_watermark
    is_over = window_end <= clock.watermark
    sales = events.filter(~was_over)
    rows = pl.concat([state.select(_SOLD), sales.select(_SOLD)])
    sold = summed(rows, ["window_start", "item"], _TOTALS)
    # Of open windows too: their totals are refused as soon as they do not fit.
    windows = summed(sold, ["window_start"], _TOTALS, pl.len().cast(pl.Int64).alias("n_products"))
    closing = sold.filter(is_over)
    still_open = sold.filter(~is_over)
    changed = still_open.join(sales.select("window_start").unique(), on="window_start", how="semi")
    final, interim = (_best(part, parameters) for part in (closing, changed))
    return Step(
        state=still_open.with_columns(deadline=window_end),
        output=final,
        late=events.filter(was_over),
        side={
            "latest_top_products": pl.concat(
                [final.with_columns(is_open=pl.lit(value=False)), interim.with_columns(is_open=pl.lit(value=True))]
            ),
            "sales_windows": _windows(windows.filter(is_over), parameters.window),
        },
    )


def _best(sold: pl.DataFrame, parameters: TopProductsParameters) -> pl.DataFrame:
    """Rank the products of each window and keep the first K: sort only those that sold as much as the K-th."""
    least = pl.col("quantity").top_k(parameters.k).min().over("window_start")
    candidates = sold.filter(pl.col("quantity") >= least)
    ordered = candidates.sort("window_start", "quantity", "item", descending=[False, True, False])
    ranked = ordered.with_columns(rank=pl.int_range(1, pl.len() + 1).over("window_start"))
    return ranked.filter(pl.col("rank") <= parameters.k).select(
        "window_start",
        (pl.col("window_start") + parameters.window).alias("window_end"),
        "rank",
        pl.col("item").alias("product"),
        "quantity",
        pl.col("revenue").cast(pl.Float64),
    )


def _windows(windows: pl.DataFrame, window: timedelta) -> pl.DataFrame:
    """Build the rows of closed windows from their sums."""
    return windows.sort("window_start").select(
        "window_start",
        (pl.col("window_start") + window).alias("window_end"),
        pl.col("n_events").alias("n_sales"),
        "n_products",
        "quantity",
        pl.col("revenue").cast(pl.Float64),
    )


# A price that does not fit (10⁹ or more, or not a number) counts as missing. All others, with nine decimals, times any 64-bit
# quantity have at most 38 digits, so that no product overflows.
_FITS = pl.col("price").is_finite() & (pl.col("price").abs() < 1e9)
_REVENUE = pl.col("quantity").cast(pl.Decimal(38, 0)) * pl.when(_FITS).then(pl.col("price")).cast(pl.Decimal(38, 9))

_TOTALS = ("quantity", "revenue", "n_events")
_SOLD = ("window_start", "item", "quantity", "revenue", "n_events")
