"""Simulate the sales of a shop: the sales of 36 items follow Zipf's law, few are at night, and one order in 30 is a return."""

import numpy as np
import polars as pl

from keyfold.times import to_times
from spark_jobs.simulation.feed import MINUTE, SECOND
from spark_jobs.streams import SALES

_DEVICES = {
    "Watch": ["Series 7", "Series 8", "Ultra"],
    "Phone": ["12", "13 mini", "13", "14 Pro"],
    "Tablet": ["Air", "Mini", "Pro"],
    "Laptop": ["13 inch", "15 inch"],
    "Earbuds": ["2nd generation", "Pro"],
    "Speaker": ["Mini", "Max"],
    "Camera": ["X100", "X200", "X200 Zoom"],
    "Monitor": ["24 inch", "27 inch", "32 inch"],
}
"""Devices and their models."""

_THINGS = {
    "Metal Lantern": "Garden",
    "Garden Sign": "Garden",
    "Cake Cases, Pack Of 72": "Kitchen",
    "Mugs, Set Of 4": "Kitchen",
    "Hot Water Bottle, Knitted": "Home",
    "Picture Frame": "Home",
    "Alarm Clock": "Home",
}
"""The other items and their categories; each is sold in four colours, and a sale lists its description as its model."""

_CATALOGUE = 2010  # fixed seed, so that popularity and prices are the same in every call


def sales_table(rng: np.random.Generator, size: int, begin: int, end: int) -> pl.DataFrame:
    """Make clean sold lines sorted by time, with the columns of the stream `sales`.

    Quantity is negative for returns, price is per piece, customer may be NULL.
    """
    orders = max(1, size // 4)
    order = np.sort(rng.integers(0, orders, size))
    minutes = np.arange(-(-begin // MINUTE), end // MINUTE)
    weight = 0.05 + np.maximum(0.0, np.sin(np.pi * (minutes / 60 % 24 - 6) / 15))
    time = np.sort(rng.choice(minutes, orders, p=weight / weight.sum()) * 60 + rng.integers(0, 60, orders)) * SECOND
    returned = rng.random(orders) < 1 / 30
    customer = pl.Series([f"{12_346 + one}" if one < 4000 else None for one in rng.integers(0, 5000, orders)])
    country = pl.Series(["United Kingdom", "Germany"])[(rng.random(orders) < 0.1).astype(int)]
    catalogue = _catalogue()
    item = catalogue[rng.choice(len(catalogue), size, p=catalogue["weight"].to_numpy())]
    first = (pl.lit(pl.Series(rng.random(size))) * pl.col("models").list.len()).cast(pl.Int64)
    shown = pl.lit(pl.Series(np.where(rng.random(size) < 0.2, 2, 1)))
    quantity = np.minimum(rng.geometric(0.3, size), 48) * np.where(returned[order], -1, 1)
    return item.with_columns(
        quantity=pl.Series(quantity),
        models=pl.col("models").list.slice(first, shown),
        time=to_times(time[order]),
        invoice=pl.Series([f"{'C' if back else ''}{begin // SECOND:x}{at:04}" for at, back in enumerate(returned)])[
            order
        ],
        customer=customer.gather(order),
        country=country.gather(order),
    ).select(SALES.schema.names)


def products_table() -> pl.DataFrame:
    """Make the shop's table of products: item, product_name, category, list_price; without the two items that sell least."""
    return (
        _catalogue()
        .sort("weight", descending=True)
        .head(-2)
        .select("item", "product_name", "category", list_price=(pl.col("price") * 1.2).round(2))
        .sort("item")
    )


def _catalogue() -> pl.DataFrame:
    """Make the items, with their models, price and share of sales."""
    rng = np.random.default_rng(_CATALOGUE)
    rows = [(device, device, "Devices", models) for device, models in _DEVICES.items()]
    for colour in ("White", "Red", "Blue", "Vintage"):
        for thing, category in _THINGS.items():
            rows.append((str(20_000 + 117 * len(rows)), f"{colour} {thing}", category, [f"{colour} {thing}"]))
    weight = 1 / (rng.permutation(len(rows)) + 1) ** 1.1
    price = np.where(
        np.arange(len(rows)) < len(_DEVICES), rng.uniform(20, 900, len(rows)), rng.uniform(0.4, 15, len(rows))
    )
    names = ["item", "product_name", "category", "models"]
    return pl.DataFrame(rows, schema=names, orient="row").with_columns(
        price=pl.Series(np.round(price, 2)), weight=pl.Series(weight / weight.sum())
    )
