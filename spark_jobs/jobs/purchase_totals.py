"""Write the running total and the models of an item after every purchase.

State is one row per item: its quantity (returns are negative) and the set of models seen. Totals never close, so no event is
late: the final total does not depend on the order of purchases.

The parameter `order` decides when the row of a purchase is written:

- `arrival`: at once. The purchases of a micro-batch are added in order of event time, after those of earlier micro-batches.
  So intermediate totals (not the last ones) depend on batch boundaries.
- `event_time`: when the watermark has passed the purchase. Purchases wait in state until then and are added in order of event
  time, so the rows do not depend on batch boundaries. A purchase behind the watermark is added and written at once.

Purchases of an item at the same time are added in order of quantity, then of models. `latest_purchase_totals` has each item's
total of all purchases that have arrived, waiting ones included; it depends neither on order nor on batch boundaries.

With `expire_after`, an item without purchases for that long is dropped from state, and its next purchase starts a new total.
Every purchase has had its row by then; the latest table keeps the old row until the item is bought again. In event time, the
silence is between two purchases, so with `order=event_time` it does not depend on batch boundaries. With
`timeout_in=processing_time`, it is measured from the run that brought the item's last purchase; the item's waiting purchases
are added first (`keyed.timeouts`).
"""

from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import Clock, JobTemplate, KeyedJob, OutputTable, Step, required
from keyfold.keyed.job import Parted, Timeout
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.rows.exact_sums import in_int64
from keyfold.operators.ordering import Ordered, in_order
from keyfold.stream import TIMESTAMP
from keyfold.times import to_times
from spark_jobs.jobs.silence import ExpiringParameters, cut_lifetimes
from spark_jobs.streams import SALES

PURCHASE = pa.schema([SALES.schema.field(column) for column in ("item", "time", "quantity", "models")])

MODELS = pa.list_(pa.string())

ITEM_TOTAL = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        pa.field("quantity", pa.int64(), nullable=False),
        pa.field("models", MODELS),
        pa.field("time", TIMESTAMP),
        pa.field("deadline", TIMESTAMP),
    ]
)
"""An item's total, or (with `time`) a purchase that waits for the watermark.

The deadline of a total is when it expires in event time; the deadline of a purchase is its own time.
"""

_KEY = ("item",)
_TOTAL = ("item", "quantity", "models", "deadline")

PURCHASE_TOTAL = pa.schema(
    [
        required("item", pa.string(), "The item", made_of="item"),
        required("delta_quantity", pa.int64(), "Pieces in this purchase; negative for a return", made_of="quantity"),
        required(
            "cumulative_quantity", pa.int64(), "Pieces of the item so far, with this purchase", made_of="quantity time"
        ),
        required("models", MODELS, "Variants of the item seen so far, sorted", made_of="models time"),
        required("event_time", TIMESTAMP, "When it was bought (UTC)", made_of="time"),
    ]
)

LATEST_PURCHASE_TOTAL = pa.schema(
    [
        PURCHASE_TOTAL.field("item"),
        required("quantity", pa.int64(), "Pieces bought less pieces returned, in all", made_of="quantity"),
        required("models", MODELS, "Variants of the item seen, sorted", made_of="models"),
    ]
)


class PurchaseTotalsParameters(ExpiringParameters):
    """Parameters of `purchase_totals`."""

    order: Literal["arrival", "event_time"] = Field(
        "arrival",
        description="arrival: every purchase is added when it arrives. event_time: it waits until the watermark has "
        "passed it, so that intermediate totals do not depend on batch boundaries.",
    )


_MOVABLE_PARAMETERS = frozenset({"order"})
"""Parameters that a move can change: a total does not depend on the order of its purchases, and a waiting purchase is written
when it is due by the new order. `expire_after` is not among them: existing totals do not have the time of the last purchase.
"""


def build(parameters: PurchaseTotalsParameters) -> KeyedJob:
    """After every purchase, its item's cumulative quantity and the set of models seen of it."""
    return KeyedJob(
        name="purchase_totals",
        stream=SALES,
        key=_KEY,
        event_time="time",
        events=PURCHASE,
        state=ITEM_TOTAL if parameters.expiry is None else parameters.expiry.add_column(ITEM_TOTAL),
        output=PURCHASE_TOTAL,
        step=partial(add_up, parameters=parameters),
        step_decides_late=True,
        side_outputs=(
            OutputTable(
                "latest_purchase_totals",
                LATEST_PURCHASE_TOTAL,
                "upsert",
                ("item",),
                description="The latest total of each item.",
            ),
        ),
        state_events=pl.col("time").count(),
        one_per_key=pl.col("time").is_null(),
        **parameters.settings(),
        movable_parameters=_MOVABLE_PARAMETERS,
    )


PURCHASE_TOTALS = JobTemplate("purchase_totals", PurchaseTotalsParameters, build)


def add_up(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, parameters: PurchaseTotalsParameters) -> Step:
    """Run the step: every purchase gives one row of output, or waits in state."""
    expiry, waits = parameters.expiry, pl.col("time").is_not_null()
    over, going_on = Parted(state.clear(), state) if expiry is None else expiry.part(state, _KEY, clock)
    ended = [_add(over.filter(~waits), over.filter(waits), expiry).output] if over.height else []
    purchases = pl.concat([going_on.filter(waits).select(PURCHASE.names), events])
    is_due = pl.lit(value=True) if parameters.order == "arrival" else pl.col("time") <= clock.watermark
    waiting = purchases.filter(~is_due)
    added = _add(going_on.filter(~waits), purchases.filter(is_due), expiry)
    totals = added.totals.filter((pl.col("deadline") > clock.watermark).fill_null(value=True))
    rows = pl.concat([totals, waiting.with_columns(deadline="time")], how="diagonal")
    if expiry is not None:
        rows = expiry.renew(rows, going_on, events, _KEY, clock)
    return Step(
        state=rows,
        output=pl.concat([*ended, added.output]),
        side={"latest_purchase_totals": _latest(added.totals, waiting, events, expiry)},
    )


class _Added(NamedTuple):
    """Rows of output (`PURCHASE_TOTAL`), and all totals after them."""

    output: pl.DataFrame
    totals: pl.DataFrame


def _add(totals: pl.DataFrame, purchases: pl.DataFrame, expiry: Timeout | None) -> _Added:
    """Add purchases to the totals, or start a new total if the item has expired."""
    ordered = in_order(purchases.select(PURCHASE.names), _KEY, "time")
    known = ordered.events.select(_KEY)[ordered.starts].join(totals, on=_KEY, how="left", maintain_order="left")
    lifetimes = cut_lifetimes(ordered, "time", known["deadline"], expiry)
    ordered, number = lifetimes.ordered, lifetimes.ordered.key_number
    goes_on = pl.Series(lifetimes.goes_on)
    before = known.select("quantity", "models")[lifetimes.key_number].with_columns(pl.when(goes_on).then(pl.all()))
    # In 128 bits, since running sums of 64 bits wrap around.
    delta = ordered.events["quantity"].cast(pl.Int128)
    began = before["quantity"].fill_null(0).cast(pl.Int128)
    running = delta.cum_sum()
    # A running sum over all items, less its value before each item's first purchase.
    cumulative = running + (began - (running - delta).gather(ordered.starts)).gather(number)
    output = ordered.events.select(
        "item",
        pl.col("quantity").alias("delta_quantity"),
        pl.Series("cumulative_quantity", in_int64(cumulative, "quantity", ordered.events["item"])),
        _running_sets(before["models"], ordered),
        pl.col("time").alias("event_time"),
    )
    latest = lifetimes.is_latest
    due = to_times(lifetimes.last[latest]) + expiry.after if expiry is not None and expiry.in_event_time else None
    changed = output[ordered.lasts[latest]].select(
        "item",
        pl.col("cumulative_quantity").alias("quantity"),
        "models",
        pl.lit(due, polars_schema(ITEM_TOTAL)["deadline"]).alias("deadline"),
    )
    return _Added(output, pl.concat([totals.select(_TOTAL).join(changed, on=_KEY, how="anti"), changed]))


def _running_sets(before: pl.Series, ordered: Ordered) -> pl.Series:
    """Return the sorted set of models of the item after each purchase; `before` has the set before the first.

    A new set is built only where a model is seen for the first time; purchases refer to their set.
    """
    rows = np.arange(ordered.events.height)
    keys = np.arange(before.len())
    listed = pl.concat(
        [
            pl.DataFrame({"row": ordered.starts, "key": keys, "model": before}),
            pl.DataFrame({"row": rows, "key": ordered.key_number, "model": ordered.events["models"]}),
        ]
    )
    first = listed.explode("model").filter(_is_name(pl.col("model"))).group_by("key", "model").agg(pl.col("row").min())
    begins = np.zeros(rows.size, dtype=bool)
    begins[ordered.starts] = True
    begins[first["row"].to_numpy()] = True
    set_number = np.cumsum(begins) - 1
    members = first.select(
        "model",
        number=pl.int_ranges(
            pl.Series(set_number[first["row"].to_numpy()]),
            pl.Series(set_number[ordered.lasts][first["key"].to_numpy()] + 1),
        ),
    ).explode("number")
    sets = members.sort("number", "model").group_by("number", maintain_order=True).agg("model")
    every_set = pl.DataFrame({"number": np.arange(begins.sum())}).join(
        sets, on="number", how="left", maintain_order="left"
    )
    return every_set["model"].fill_null([]).gather(set_number).alias("models")


def _latest(totals: pl.DataFrame, waiting: pl.DataFrame, events: pl.DataFrame, expiry: Timeout | None) -> pl.DataFrame:
    """Return the totals of the items with new events, waiting purchases included."""
    items = events.select("item").unique()
    known = totals.join(items, on="item", how="semi")
    held = waiting.join(items, on="item", how="semi")
    found = _add(known, held, expiry).totals if held.height else known
    return found.select(LATEST_PURCHASE_TOTAL.names)


def _is_name(model: pl.Expr) -> pl.Expr:
    return model.is_not_null() & (model != "")
