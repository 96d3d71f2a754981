"""The measured job: balances of accounts, and its generated events and state.

Like most keyed jobs, it adds events to the state of their keys, and emits each changed balance. Accounts are numbers of 64
random bits, which cannot be compressed, like most keys.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold import STEP_DECIDES, Append, Clock, Input, KeyedJob, Step, Stream

TIME = pa.timestamp("us", tz="UTC")
START = datetime(2026, 1, 1, tzinfo=UTC)
EVERY = timedelta(minutes=1)
"""Event time from the start of one batch to the start of the next."""

STREAM = "bookings"

BOOKING = pa.schema(
    [pa.field("account", pa.string(), nullable=False), ("slot", pa.int32()), ("at", TIME), ("amount", pa.int64())]
)
"""The schema of events, and of state rows: the balance of an account. `slot` is 0; it makes rows as large as common ones."""


def balances(key_groups: int) -> KeyedJob:
    """The job with this number of key groups."""
    return KeyedJob(
        "balances",
        Input(Stream(STREAM, BOOKING, event_time="at"), columns=BOOKING, final_at=STEP_DECIDES),
        "account",
        BOOKING,
        add,
        Append(BOOKING),
        key_groups=key_groups,
    )


def add(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Add amounts to the balances of their accounts."""
    sums = pl.concat([state, events]).group_by("account").agg(pl.col("slot", "at").max(), pl.col("amount").sum())
    return Step(state=sums, output=sums.join(events, on="account", how="semi"))


def accounts(numbers: np.ndarray) -> pl.Series:
    """The accounts with the given numbers: 64 random-looking bits as text."""
    return pl.Series("account", numbers).hash(seed=1).cast(pl.String)


def first_state(first: int, last: int) -> pl.DataFrame:
    """State rows of the accounts `first` to `last` - 1."""
    return _rows(np.arange(first, last), START - EVERY, np.random.default_rng(first))


def bookings(batch: int, count: int, keys: int) -> pl.DataFrame:
    """Events of a batch, in order of time, of accounts that are drawn evenly.

    Args:
        batch: the batch's number; batches have different minutes.
        count: number of events.
        keys: number of accounts to draw from.
    """
    chance = np.random.default_rng(1_000_000 + batch)
    return _rows(chance.integers(0, keys, count), START + batch * EVERY, chance)


def _rows(numbers: np.ndarray, since: datetime, chance: np.random.Generator) -> pl.DataFrame:
    count = len(numbers)
    apart = EVERY / timedelta(microseconds=1) / max(1, count)
    after = (np.arange(count) * apart).astype(np.int64)
    return pl.DataFrame(
        {
            "account": accounts(numbers),
            "slot": np.zeros(count, np.int32),
            "at": pl.Series(after).cast(pl.Duration("us")) + since,
            "amount": chance.integers(-10_000, 10_000, count),
        }
    )
