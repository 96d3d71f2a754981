"""The sales stream: sales and returns of a shop."""

import pyarrow as pa

from keyfold import TIMESTAMP, Source, Stream, column, not_empty, required

STREAM = Stream(
    name="sales",
    description="Valid sales and returns: typed and checked. Two equal lines are two sales, since sales have no id.",
    schema=pa.schema(
        [
            required("item", pa.string(), "Code or name of the sold item"),
            required("quantity", pa.int64(), "Pieces; negative for returns"),
            column("models", pa.list_(pa.string()), "Variants of the item in this sale"),
            required("time", TIMESTAMP, "Event time: when it was sold (UTC); its arrival if the line has no time"),
            column("price", pa.float64(), "Price of one piece", unit="in the shop's currency"),
            column("invoice", pa.string(), "Invoice that lists the sale"),
            column("customer", pa.string(), "Who bought it"),
            column("country", pa.string(), "Where the customer lives"),
        ]
    ),
    event_time="time",
    # Tills send messages without a time at the moment of the sale: {"item":"Mac","quantity":5,"model":["Macbook air"]}
    missing_time="arrival",
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
    # No event id: an invoice may list the same item twice, with the same time and quantity.
    rules=(not_empty("item"),),
    private=("customer",),
)
