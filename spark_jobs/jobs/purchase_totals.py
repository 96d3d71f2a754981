"""Write the running total and the models of an item after every purchase.

State is one row per item: its quantity (returns are negative) and the set of models seen. Totals never close, so no event is
late: the final total does not depend on the order of purchases (`running`).

The parameter `order` decides when the row of a purchase is written: by `arrival` at once, so that intermediate totals (not the
last ones) depend on batch boundaries; by `event_time` when the watermark has passed the purchase, so that none does. Purchases
of an item at the same time are added in order of quantity, then of models. `latest_purchase_totals` has each item's total of
all purchases that have arrived, waiting ones included; it depends neither on order nor on batch boundaries.

With `expire_after`, an item without purchases for that long is dropped from state, and its next purchase starts a new total.
Every purchase has had its row by then; the latest table keeps the old row until the item is bought again.
"""

from typing import Literal

import polars as pl
import pyarrow as pa

from keyfold import TIMESTAMP, Input, KeyedJob, Upsert, parameter, required, with_parameters
from keyfold.operators import distinct, running, sum
from spark_jobs.jobs.silence import ExpiringParameters
from spark_jobs.streams import SALES

MODELS = pa.list_(pa.string())

PURCHASE_TOTAL = pa.schema(
    [
        required("item", pa.string(), "The item"),
        required("delta_quantity", pa.int64(), "Pieces in this purchase; negative for a return"),
        required("cumulative_quantity", pa.int64(), "Pieces of the item so far, with this purchase"),
        required("models", MODELS, "Variants of the item seen so far, sorted"),
        required("event_time", TIMESTAMP, "When it was bought (UTC)"),
    ]
)

LATEST_PURCHASE_TOTAL = pa.schema(
    [
        PURCHASE_TOTAL.field("item"),
        required("quantity", pa.int64(), "Pieces bought less pieces returned, in all"),
        required("models", MODELS, "Variants of the item seen, sorted"),
    ]
)


class PurchaseTotalsParameters(ExpiringParameters):
    """Parameters of `purchase_totals`."""

    # A total does not depend on the order of its purchases, and a waiting purchase is written when it is due by the new
    # order. `expire_after` needs a refresh: totals do not have the time of the last purchase.
    order: Literal["arrival", "event_time"] = parameter(
        "arrival",
        description="arrival: every purchase is added when it arrives. event_time: it waits until the watermark has "
        "passed it, so that intermediate totals do not depend on batch boundaries.",
        change="migrate",
    )


def build(parameters: PurchaseTotalsParameters) -> KeyedJob:
    """After every purchase, its item's cumulative quantity and the set of models seen of it."""
    return running(
        "purchase_totals",
        Input(SALES, columns=("item", "time", "quantity", "models")),
        {"cumulative_quantity": sum("quantity"), "models": distinct("models", ignored=("",))},
        key="item",
        output=PURCHASE_TOTAL,
        then={
            "delta_quantity": pl.col("quantity"),
            "event_time": pl.col("time"),
            "quantity": pl.col("cumulative_quantity"),
        },
        latest=Upsert(
            LATEST_PURCHASE_TOTAL, "item", name="latest_purchase_totals", description="The latest total of each item."
        ),
        at_once=parameters.order == "arrival",
        expiry=parameters.expiry,
    )


PURCHASE_TOTALS = with_parameters(build)
