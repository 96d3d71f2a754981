"""The toy domain of the tests: a shop to which clicks, orders and payments come, and its times."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pyarrow as pa

from keyfold.stream import TIMESTAMP, Stream

START = datetime(2026, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

USER = pa.field("user", pa.string(), nullable=False)
CLICK = pa.schema([USER, pa.field("at", TIMESTAMP, nullable=False), ("clicks", pa.int64())])
CLICKS = Stream("clicks", CLICK, event_time="at")

CARD = pa.field("card", pa.string(), nullable=False)
ORDER = pa.schema([CARD, pa.field("ordered_at", TIMESTAMP, nullable=False), ("item", pa.string())])
ORDERS = Stream("orders", ORDER, event_time="ordered_at")
PAYMENT = pa.schema([CARD, pa.field("paid_at", TIMESTAMP, nullable=False), ("amount", pa.int64())])
PAYMENTS = Stream("payments", PAYMENT, event_time="paid_at")


def clicks(*rows: tuple[str | None, float], since: datetime = START) -> pl.DataFrame:
    """Clicks of (user, minutes after a time), each counted once."""
    return pl.DataFrame(
        [(user, since + minutes * MINUTE, 1) for user, minutes in rows],
        {"user": pl.String, "at": pl.Datetime("us", "UTC"), "clicks": pl.Int64},
        orient="row",
    )


def orders(*rows: tuple[str, float, str | None]) -> pl.DataFrame:
    """Orders of (card, minutes after NOON, item)."""
    return pl.DataFrame(
        [(card, NOON + minutes * MINUTE, item) for card, minutes, item in rows],
        {"card": pl.String, "ordered_at": pl.Datetime("us", "UTC"), "item": pl.String},
        orient="row",
    )


def payments(*rows: tuple[str, float, int | None]) -> pl.DataFrame:
    """Payments of (card, minutes after NOON, amount)."""
    return pl.DataFrame(
        [(card, NOON + minutes * MINUTE, amount) for card, minutes, amount in rows],
        {"card": pl.String, "paid_at": pl.Datetime("us", "UTC"), "amount": pl.Int64},
        orient="row",
    )
