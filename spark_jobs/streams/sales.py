"""Sales: what a shop sold, and what came back."""

import pyarrow as pa

from spark_jobs.streams.contract import TIMESTAMP, Source, Stream
from spark_jobs.streams.rules import not_empty

STREAM = Stream(
    name="sales",
    schema=pa.schema(
        [
            pa.field("item", pa.string(), nullable=False),
            pa.field("quantity", pa.int64(), nullable=False),
            pa.field("models", pa.list_(pa.string())),
            pa.field("time", TIMESTAMP, nullable=False),
            pa.field("price", pa.float64()),
            pa.field("invoice", pa.string()),
            pa.field("customer", pa.string()),
            pa.field("country", pa.string()),
        ]
    ),
    event_time="time",
    sources={
        "item": Source(("item", "StockCode")),
        "quantity": Source(("quantity", "Quantity")),
        "models": Source(("model", "models", "Description")),
        "time": Source(("time", "InvoiceDate", "timestamp")),
        "price": Source(("price", "UnitPrice")),
        "invoice": Source(("invoice", "InvoiceNo")),
        "customer": Source(("customer", "CustomerID")),
        "country": Source(("country", "Country")),
    },
    # No event id: an invoice may well list an item twice, at one moment, in one quantity.
    rules=(not_empty("item"),),
    private=("customer",),
)
"""Quantity is negative for returns; price is of one piece."""
