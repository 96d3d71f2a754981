"""Sales in plain Python, one at a time: what `top_products` and `purchase_totals` must agree with."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

Sale = dict[str, Any]
BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Windows:
    """Windows of sales that close when the watermark has reached their end."""

    def __init__(self, window: timedelta, k: int) -> None:
        self.window, self.k = window, k
        self.watermark = BEGINNING
        self.open: dict[datetime, list[Sale]] = defaultdict(list)
        self.closed: dict[datetime, list[Sale]] = {}
        self.n_late = 0

    def batch(self, sales: list[Sale], watermark: datetime) -> None:
        for sale in sales:
            start = sale["time"] - (sale["time"] - EPOCH) % self.window
            if start + self.window <= self.watermark:
                self.n_late += 1
            else:
                self.open[start].append(sale)
        self.watermark = watermark
        for start in [start for start in self.open if start + self.window <= self.watermark]:
            self.closed[start] = self.open.pop(start)

    def top(self, windows: dict[datetime, list[Sale]]) -> list[tuple]:
        """(window_start, window_end, rank, product, quantity, revenue) of each window's best, in order."""
        rows = []
        for start, sales in sorted(windows.items()):
            quantity: dict[str, int] = defaultdict(int)
            revenue: dict[str, Decimal] = defaultdict(Decimal)
            for sale in sales:
                quantity[sale["item"]] += sale["quantity"]
                revenue[sale["item"]] += sale["quantity"] * Decimal(str(sale.get("price") or 0))
            best = sorted(quantity, key=lambda item: (-quantity[item], item))[: self.k]
            for rank, item in enumerate(best, start=1):
                rows.append((start, start + self.window, rank, item, quantity[item], float(revenue[item])))
        return rows


class Totals:
    """Items' quantities and models, purchase by purchase."""

    def __init__(self) -> None:
        self.quantity: dict[str, int] = defaultdict(int)
        self.models: dict[str, set[str]] = defaultdict(set)

    def add(self, purchases: list[Sale]) -> list[tuple]:
        """(item, delta_quantity, cumulative_quantity, models, event_time) of each purchase, in order of event time."""
        rows = []
        for purchase in sorted(purchases, key=purchase_order):
            item = purchase["item"]
            self.quantity[item] += purchase["quantity"]
            self.models[item].update(_models(purchase))
            rows.append((item, purchase["quantity"], self.quantity[item], sorted(self.models[item]), purchase["time"]))
        return rows

    def latest(self) -> list[tuple]:
        """(item, quantity, models) in order of items."""
        return [(item, self.quantity[item], sorted(self.models[item])) for item in sorted(self.quantity)]


def _models(purchase: Sale) -> list[str]:
    return sorted({model for model in purchase.get("models") or [] if model})


def purchase_order(purchase: Sale) -> tuple:
    """By time, quantity, and models as they came, where what is not there is before what is."""
    models = purchase.get("models")
    told = [(model is not None, model or "") for model in models or []]
    return purchase["time"], purchase["quantity"], models is not None, told


def starts_of(time, length, every):
    """The starts of the windows that a time is in, by counting up from long before."""
    start = time - (time - EPOCH) % every
    return [start - n * every for n in range(200) if start - n * every + length > time]
