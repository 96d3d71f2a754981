"""The job that is measured: balances of accounts, any number of rows an account, and their made-up events and state.

It does what most keyed jobs do, add events to what is known of their keys, and tells each balance that changed. Accounts
are numbers of 64 random bits, as keys mostly are: nothing compresses them.
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
"""From one batch's first event to the next one's."""

STREAM = "bookings"

BOOKING = pa.schema(
    [pa.field("account", pa.string(), nullable=False), ("slot", pa.int32()), ("at", TIME), ("amount", pa.int64())]
)
"""An event, and a row of state: what has come of an account in a slot."""


def balances(key_groups: int) -> KeyedJob:
    """The job with so many key groups."""
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
    """The accounts of numbers from 0 on: 64 bits that look random, as text."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    # The mixer of splitmix64 (Steele, Lea and Flood 2014), one to one: no two numbers have one account.
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return pl.Series("account", mixed ^ (mixed >> np.uint64(31))).cast(pl.String)


def first_state(first: int, last: int, rows_a_key: int) -> pl.DataFrame:
    """Rows of state of the accounts `first` to `last` - 1."""
    numbers = np.repeat(np.arange(first, last), rows_a_key)
    slots = np.tile(np.arange(rows_a_key, dtype=np.int32), last - first)
    chance = np.random.default_rng(first)
    return _rows(numbers, slots, START - EVERY, chance)


def bookings(batch: int, count: int, keys: int, rows_a_key: int, key_groups: int, groups_touched: int) -> pl.DataFrame:
    """Events of a batch, in order of time, of accounts below `keys` drawn evenly.

    Args:
        batch: its number; no two share a minute.
        count: of events.
        keys: how many accounts they may be of.
        rows_a_key: slots an account.
        key_groups: of the job.
        groups_touched: how many of its key groups they may be of.
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
