"""The payments stream: card payments with city and time."""

import polars as pl
import pyarrow as pa

from keyfold import TIMESTAMP, Rule, Source, Stream, column, not_empty, required

STREAM = Stream(
    name="payments",
    description="Valid card payments, each once: typed, checked, de-duplicated by their number.",
    schema=pa.schema(
        [
            required("card", pa.string(), "Number of the card"),
            required("time", TIMESTAMP, "Event time: when it was paid (UTC)"),
            required("city", pa.string(), "City of the payment; for an online shop, its home city"),
            required("amount", pa.float64(), "Amount paid", unit="euros"),
            column("merchant", pa.string(), "The merchant"),
            required("payment_id", pa.string(), "Number of the payment"),
        ]
    ),
    event_time="time",
    sources={"time": Source(("time", "timestamp")), "payment_id": Source(("payment_id", "id"))},
    event_id=("payment_id",),
    rules=(
        not_empty("card"),
        not_empty("city"),
        not_empty("payment_id"),
        Rule("amount is not above nought", pl.col("amount") <= 0),
    ),
    private=("card",),
)
