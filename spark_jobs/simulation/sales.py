"""Simulate the sales of a shop: messages of its tills and exports of its ledger, in alternating files.

Files with an even number have messages, one JSON object per line: `{"item":"Watch","quantity":2,"model":["Series 7"],…}`.
Some tills have no clock: one message in 20 has only item, quantity and model, and is dated by its arrival. The other files are
CSV in the layout of UCI Online Retail, with an invoice, a customer and a country. The description of a retail item may contain
commas; that of a device is its model. The sales of 60 items follow Zipf's law. One order in 30 is a return, with negative
quantities. There is no event id, so no line is duplicated.
"""

import numpy as np
import polars as pl

from keyfold.times import to_times
from spark_jobs.simulation.contract import HOUR, SECOND, Format, SimulatedEvents, SimulationRequest
from spark_jobs.simulation.faults import csv_field, json_field
from spark_jobs.streams import SALES

DEVICES = {
    "Watch": ("Series 7", "Series 8", "Ultra"),
    "Phone": ("12", "13 mini", "13", "14 Pro"),
    "Tablet": ("Air", "Mini", "Pro"),
    "Laptop": ("13 inch", "15 inch"),
    "Earbuds": ("2nd generation", "3rd generation", "Pro"),
    "Speaker": ("Mini", "Max"),
    "Camera": ("X100", "X200", "X200 Zoom"),
    "Keyboard": ("Compact", "Full"),
    "Mouse": ("Wired", "Wireless"),
    "Monitor": ("24 inch", "27 inch", "32 inch"),
    "Charger": ("20 W", "65 W"),
    "Router": ("AX", "BE"),
}
"""Devices and their models."""

RETAIL = tuple(
    f"{colour} {thing}"
    for colour in ("WHITE", "RED", "BLUE", "VINTAGE")
    for thing in (
        "HANGING HEART T-LIGHT HOLDER",
        "METAL LANTERN",
        "CAKE CASES, PACK OF 72",
        "RETROSPOT LUNCH BAG",
        "HOT WATER BOTTLE, KNITTED",
        "PAPER CHAIN KIT",
        "MUGS, SET OF 4",
        "WOODEN PICTURE FRAME",
        "JAM MAKING SET, WITH JARS",
        "ALARM CLOCK",
        "GARDEN SIGN",
        "STORAGE TINS, SET OF 3",
    )
)
"""Descriptions of the other items, whose names are stock codes."""

_CATEGORIES = {
    "Cake Cases, Pack Of 72": "Kitchen",
    "Hot Water Bottle, Knitted": "Kitchen",
    "Mugs, Set Of 4": "Kitchen",
    "Jam Making Set, With Jars": "Kitchen",
    "Storage Tins, Set Of 3": "Kitchen",
    "Garden Sign": "Garden",
    "Metal Lantern": "Garden",
}
"""Categories of retail items; all others are Home."""

_HEADER = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country"
_COUNTRIES = ("United Kingdom", "Germany", "France", "Norway")
_WITHOUT_A_CLOCK = 0.05
_CATALOGUE = 2010  # fixed seed, so that popularity and prices are the same in every call


def sales_table(rng: np.random.Generator, size: int, begin: int, end: int) -> pl.DataFrame:
    """Make clean sold lines sorted by time.

    Args:
        size: number of lines.
        begin: no order is earlier, in microseconds since 1970.
        end: every order is earlier.

    Returns:
        The columns of the stream `sales`; quantity is negative for returns, price is per piece, customer may be NULL.
    """
    orders = max(1, size // 4)
    sizes = 1 + rng.multinomial(size - orders, rng.dirichlet(np.full(orders, 0.8)))
    order = np.repeat(np.arange(orders), sizes)
    time = np.sort(_order_times(rng, orders, begin, end))
    returned = rng.random(orders) < 1 / 30
    returned[rng.integers(orders)] = True
    number = [f"{'C' if back else ''}{begin // HOUR}{at:03}" for at, back in enumerate(returned)]
    customer = pl.Series([f"{12_346 + one}" for one in rng.integers(0, 5000, orders)])
    customer = customer.set(pl.Series(rng.random(orders) < 0.25), None)
    country = pl.Series(_COUNTRIES).gather(rng.choice(len(_COUNTRIES), orders, p=(0.9, 0.05, 0.03, 0.02)))
    catalogue = _catalogue()
    item = rng.choice(len(catalogue), size, p=catalogue["weight"].to_numpy())
    quantity = np.minimum(rng.geometric(0.3, size), 48) * np.where(returned[order], -1, 1)
    all_models = pl.col("all_models")
    first = (pl.lit(pl.Series(rng.random(size))) * all_models.list.len()).cast(pl.Int64)
    shown = pl.lit(pl.Series(np.where(rng.random(size) < 0.2, 2, 1)))
    return (
        catalogue[item]
        .with_columns(
            quantity=pl.Series(quantity),
            models=all_models.list.slice(first, shown),
            time=to_times(time[order]),
            invoice=pl.Series(number).gather(order),
            customer=customer.gather(order),
            country=country.gather(order),
        )
        .select(SALES.schema.names)
    )


def products_table() -> pl.DataFrame:
    """Make the shop's table of products: item, product_name, category, list_price; without the two items that sell least."""
    catalogue = _catalogue().sort("weight", descending=True).head(-2)
    is_device = pl.col("item").is_in(list(DEVICES))
    description = pl.col("all_models").list.first().str.to_titlecase()
    thing = description.str.split(" ").list.slice(1).list.join(" ")
    return catalogue.select(
        "item",
        product_name=pl.when(is_device).then("item").otherwise(description),
        category=pl.when(is_device)
        .then(pl.lit("Devices"))
        .otherwise(thing.replace_strict(_CATEGORIES, default="Home")),
        list_price=(pl.col("price") * 1.2).round(2),
    ).sort("item")


def _order_times(rng: np.random.Generator, orders: int, begin: int, end: int) -> np.ndarray:
    """Draw the time of each order, in whole seconds; few are at night."""
    minutes = np.arange(-(-begin // (60 * SECOND)), end // (60 * SECOND))
    hour = minutes / 60 % 24
    weight = 0.05 + np.maximum(0.0, np.sin(np.pi * (hour - 6) / 15))
    chosen = rng.choice(minutes, orders, p=weight / weight.sum())
    return (chosen * 60 + rng.integers(0, 60, orders)) * SECOND


def _catalogue() -> pl.DataFrame:
    """Make the items, with their models, price and share of sales."""
    rng = np.random.default_rng(_CATALOGUE)
    codes = [f"{20_000 + 117 * number}{'AB'[number % 2] * (number % 5 == 0)}" for number in range(len(RETAIL))]
    items = [*DEVICES, *codes]
    rank = rng.permutation(len(items)) + 1
    weight = 1 / rank**1.1
    prices = [*rng.uniform(20, 900, len(DEVICES)), *rng.uniform(0.4, 15, len(codes))]
    models = [list(models) for models in DEVICES.values()] + [[description] for description in RETAIL]
    return pl.DataFrame(
        {"item": items, "all_models": models, "price": np.round(prices, 2), "weight": weight / weight.sum()}
    )


def make(rng: np.random.Generator, request: SimulationRequest) -> SimulatedEvents:
    """Make the clean events of a call, as lines."""
    table = sales_table(rng, request.size, request.begin, request.end)
    message = pl.struct(
        "item",
        "quantity",
        pl.col("models").alias("model"),
        pl.col("time").dt.convert_time_zone("Europe/London").dt.strftime("%Y-%m-%dT%H:%M:%S%:z"),
        "price",
    )
    clockless = pl.struct("item", "quantity", pl.col("models").alias("model"))
    untimed = pl.lit(pl.Series(rng.random(len(table)) < _WITHOUT_A_CLOCK))
    description = pl.col("models").list.first()
    ledger = (
        pl.col("invoice"),
        pl.col("item"),
        pl.when(description.str.contains(",", literal=True))
        .then(pl.format('"{}"', description))
        .otherwise(description),
        pl.col("quantity").cast(pl.String),
        pl.col("time").dt.strftime("%Y-%m-%d %H:%M:%S"),
        pl.col("price").cast(pl.String),
        (pl.col("customer") + ".0").fill_null(""),
        pl.col("country"),
    )
    time = pl.col("time").cast(pl.Int64)
    events = table.select(
        time=time,
        over=time,
        key=pl.col("item"),
        clockless=untimed,
        ndjson=pl.when(untimed).then(clockless.struct.json_encode()).otherwise(message.struct.json_encode()),
        csv=pl.concat_str(*ledger, separator=","),
    )
    messages = Format("ndjson", _JSON_FAULTS, untimed=pl.col("clockless"))
    return SimulatedEvents(events, (messages, Format("csv", _CSV_FAULTS, _HEADER)))


def _time(value: str) -> pl.Expr:
    """Make a fault that sets the time of a message to a JSON value, whether the message has a time or not."""
    added = pl.col("line").str.replace(r"\}$", f',"time":{value}}}')
    return (
        pl.when(pl.col("line").str.contains('"time":', literal=True)).then(json_field("time", value)).otherwise(added)
    )


_JSON_FAULTS = {
    "broken JSON": pl.col("line").str.head(40),
    "empty item": json_field("item", '""'),
    "half a piece": json_field("quantity", "2.5"),
    "model is a number": pl.col("line").str.replace(r'"model":\[[^\]]*\]', '"model":[7]'),
    "unreadable time": _time('"half past nine"'),
    "time in the future": _time('"2199-12-31T23:59:59+00:00"'),
}

_CSV_FAULTS = {
    "too few fields": pl.col("line").str.replace(r",[^,]*,[^,]*$", ""),
    "quote that never closes": pl.col("line").str.replace(r'^([^,]*,[^,]*,)"?', '${1}"').str.replace('",', ","),
    "no stock code": csv_field(1, ""),
    "quantity is a word": csv_field(-5, "dozen"),
    "unreadable invoice date": csv_field(-4, "half past nine"),
}
