"""Expectations on `latest_top_products`, by check name."""

from expectations import top_products
from keyfold.suite import Suite, critical, warning

EXPECTATIONS: Suite = {
    "is_open_is_told": critical.not_null("is_open", "Every row says whether its window is open."),
    "one_row_a_rank": critical.unique(
        ["window_start", "rank"], "A window has each rank once: rows are updated in place."
    ),
    "windows_close_as_a_whole": critical.no_rows(
        "SELECT window_start FROM {batch} GROUP BY window_start HAVING count(DISTINCT is_open) > 1",
        "The rows of a window are all final or all open.",
    ),
    **{
        name: top_products.EXPECTATIONS[name]
        for name in ("product_is_there", "no_rank_is_skipped", "ranks_follow_quantities")
    },
    "no_window_stays_open": warning.never(
        "is_open AND window_end < (SELECT max(window_start) FROM {batch}) - INTERVAL '7 days'",
        "No window stays open for a week after newer ones begin; such a window means that the watermark does not advance.",
    ),
    "mean_quantity_is_usual": top_products.EXPECTATIONS["mean_quantity_is_usual"],
}
