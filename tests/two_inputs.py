"""A job of two inputs, orders and payments, and a lakehouse to which they come."""

from datetime import UTC, datetime

import polars as pl
import pyarrow as pa

import keyfold
from keyfold import Input, KeyedJob, Step
from keyfold.journal.clock import Reading
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.tables import Append
from keyfold.keyed.job_run import RunOptions
from keyfold.stream import TIMESTAMP
from tests.lake import Lake
from tests.shop import CARD, HOUR, ORDER, ORDERS, PAYMENT, PAYMENTS, orders, payments


def first_payments(state, events, clock):
    """Of each card, once event time has passed an hour: how many orders and payments it had in it, and the first payment."""
    deadline = pl.col("at").dt.truncate("1h") + HOUR
    came = [
        events["orders"].select("card", at="ordered_at", kind=pl.lit("order"), amount=pl.lit(None, pl.Int64)),
        events["payments"].select("card", at="paid_at", kind=pl.lit("payment"), amount="amount"),
    ]
    rows = pl.concat([state.drop("deadline"), *came]).with_columns(deadline=deadline)
    over = rows.filter(pl.col("deadline") <= clock.watermark)
    is_payment = pl.col("kind") == "payment"
    output = over.group_by("card", hour=pl.col("at").dt.truncate("1h")).agg(
        orders=(~is_payment).sum().cast(pl.Int64),
        payments=is_payment.sum().cast(pl.Int64),
        first=pl.col("amount").filter(is_payment).sort_by(pl.col("at").filter(is_payment)).first(),
    )
    return Step(state=rows.filter(pl.col("deadline") > clock.watermark), output=output)


def end_of_hour(time):
    return pl.col(time).dt.truncate("1h") + HOUR


def orders_and_payments(**of_payments):
    return KeyedJob(
        "hours",
        {
            "orders": Input(ORDERS, columns=ORDER, delay="5m", final_at=end_of_hour("ordered_at")),
            "payments": Input(PAYMENTS, columns=PAYMENT, delay="10m", final_at=end_of_hour("paid_at"), **of_payments),
        },
        "card",
        pa.schema(
            [
                CARD,
                pa.field("at", TIMESTAMP),
                pa.field("kind", pa.string()),
                pa.field("amount", pa.int64()),
                pa.field("deadline", TIMESTAMP),
            ]
        ),
        first_payments,
        Append(
            {"card": pa.string(), "hour": TIMESTAMP, "orders": pa.int64(), "payments": pa.int64(), "first": pa.int64()},
            events=pl.col("orders").sum() + pl.col("payments").sum(),
        ),
        key_groups=4,
    )


class Till:
    """A lakehouse to which orders and payments come, in runs."""

    def __init__(self, folder, job=None, spark=None):
        self.lake, self.job = Lake(folder, spark), job or orders_and_payments()
        self.lakehouse, self.spark, self.land = self.lake.lakehouse, self.lake.session, self.lake.land
        self.land(ORDERS, orders())
        self.land(PAYMENTS, payments())

    def run(self, advance_to=None, max_bytes=1 << 30):
        options = RunOptions(max_bytes_per_batch=max_bytes)
        return keyfold.run(self.lakehouse, self.job, Incremental(advance_to), options=options, runners=self.spark)

    def table(self, name="hours"):
        return pl.read_delta(str(self.generation.table(name)))

    @property
    def generation(self):
        return self.lake.live(self.job.name)

    @property
    def done(self):
        return self.lake.done(self.job.name)


def clock_of(monkeypatch):
    """Makes the machine's clock one that goes on by hand; gives the function that does it."""
    now = [datetime.now(UTC)]
    monkeypatch.setattr("keyfold.keyed.job_run.read_clock", lambda: Reading(wall=now[0], uptime=0, boot=""))

    def later(by):
        now[0] += by

    return later
