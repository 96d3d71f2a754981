"""The measured job: balances of accounts, with any number of rows per account, and its generated events and state.

Like most keyed jobs, it adds events to the state of their keys, and emits each changed balance. Accounts are numbers of 64
random bits, which cannot be compressed, like most keys.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold import Clock, KeyedJob, Step, Stream
from keyfold.keyed.rows.hashing import key_hash

TIME = pa.timestamp("us", tz="UTC")
START = datetime(2026, 1, 1, tzinfo=UTC)
EVERY = timedelta(minutes=1)
"""Event time from the start of one batch to the start of the next."""

STREAM = "bookings"

BOOKING = pa.schema(
    [pa.field("account", pa.string(), nullable=False), ("slot", pa.int32()), ("at", TIME), ("amount", pa.int64())]
)
"""The schema of events, and of state rows: the balance of an account in a slot."""


def balances(key_groups: int) -> KeyedJob:
    """The job with this number of key groups."""
    return KeyedJob(
        name="balances",
        stream=Stream(STREAM, BOOKING, event_time="at"),
        key=("account",),
        event_time="at",
        watermark_delay=timedelta(0),
        events=BOOKING,
        state=BOOKING,
        output=BOOKING,
        step=add,
        step_decides_late=True,
        key_groups=key_groups,
    )


def add(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Add amounts to the balances of their accounts and slots."""
    known = summed(pl.concat([state, events]))
    return Step(state=known, output=known.join(events, on=["account", "slot"], how="semi"))


def summed(rows: pl.DataFrame) -> pl.DataFrame:
    """One row an account and slot."""
    sums = rows.group_by("account", "slot").agg(pl.col("at").max(), pl.col("amount").sum())
    return sums.select(BOOKING.names)


def accounts(numbers: np.ndarray) -> pl.Series:
    """The accounts with the given numbers: 64 random-looking bits as text."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    # The mixer of splitmix64 (Steele, Lea and Flood 2014) is one-to-one: different numbers have different accounts.
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return pl.Series("account", mixed ^ (mixed >> np.uint64(31))).cast(pl.String)


def first_state(first: int, last: int, rows_a_key: int) -> pl.DataFrame:
    """State rows of the accounts `first` to `last` - 1."""
    numbers = np.repeat(np.arange(first, last), rows_a_key)
    slots = np.tile(np.arange(rows_a_key, dtype=np.int32), last - first)
    chance = np.random.default_rng(first)
    return _rows(numbers, slots, START - EVERY, chance)


def bookings(batch: int, count: int, keys: int, rows_a_key: int, key_groups: int, groups_touched: int) -> pl.DataFrame:
    """Events of a batch, in order of time, of uniformly drawn accounts.

    Args:
        batch: the batch's number; batches have different minutes.
        count: number of events.
        keys: number of accounts to draw from.
        rows_a_key: slots per account.
        key_groups: key groups of the job.
        groups_touched: number of key groups to draw from.
    """
    chance = np.random.default_rng(1_000_000 + batch)
    there = np.arange(keys)
    if groups_touched < key_groups:
        group = accounts(there).to_frame().select(key_hash(("account",)) % key_groups).to_series().to_numpy()
        there = there[group < groups_touched]
    numbers = chance.choice(there, count)
    slots = chance.integers(0, rows_a_key, count, dtype=np.int32)
    return _rows(numbers, slots, START + batch * EVERY, chance)


def _rows(numbers: np.ndarray, slots: np.ndarray, since: datetime, chance: np.random.Generator) -> pl.DataFrame:
    count = len(numbers)
    apart = EVERY / timedelta(microseconds=1) / max(1, count)
    after = (np.arange(count) * apart).astype(np.int64)
    return pl.DataFrame(
        {
            "account": accounts(numbers),
            "slot": slots,
            "at": pl.Series(after).cast(pl.Duration("us")) + since,
            "amount": chance.integers(-10_000, 10_000, count),
        }
    )
