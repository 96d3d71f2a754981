"""Generate the events of Nexmark as columns: people, auctions and bids.

Of every 50 events the first is a person, three are auctions, and 46 are bids. Event n happens at `START` + n / rate. A chunk
depends only on the seed, the rate, the chunk size and its number, so a larger set begins with the events of a smaller one.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

_TIMES = ("dateTime", "expires")

START = datetime(2026, 1, 1, 8, tzinfo=UTC)
LATEST = timedelta(seconds=2)
"""The longest delay from the time of an event to its arrival."""

KINDS = ("person", "auction", "bid")
_PEOPLE, _AUCTIONS, _OF = 1, 3, 50
_FIRST_ID, _FIRST_CATEGORY, _CATEGORIES = 1000, 10, 5
_LATE_SHARE = 0.1
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_CITIES = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent"]
_CITIES += ["Cheyenne"]
_FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_CHANNELS = 10_000


@dataclass(frozen=True)
class Events:
    """The settings of the generator.

    Attributes:
        count: number of events of all kinds.
        rate: events per second of event time.
        chunk: number of events that are generated at a time, a multiple of 50.
        seed: seed of the random numbers.
        disorder: whether one event in ten arrives up to two seconds late.
    """

    count: int
    rate: int = 100_000
    chunk: int = 250_000
    seed: int = 1
    disorder: bool = False

    def time(self, number: int) -> datetime:
        """Return the time of an event. Without a delay, it arrives at that time."""
        return START + timedelta(microseconds=number * 1_000_000 // self.rate)


def arriving(events: Events) -> Iterator[dict[str, pl.DataFrame]]:
    """Yield all events by kind, chunk by chunk, in order of arrival. With disorder, some arrive in a later chunk than their own."""
    random = np.random.default_rng([events.seed, 1 << 32])
    waiting = {kind: pl.DataFrame() for kind in KINDS}
    for first in range(0, events.count, events.chunk):
        came = chunk(events, first)
        if not events.disorder:
            yield came
            continue
        end = events.time(first + events.chunk) + (LATEST if first + events.chunk >= events.count else timedelta(0))
        for kind, rows in came.items():
            late = random.random(rows.height) < _LATE_SHARE
            delay = late * random.integers(1, int(LATEST / timedelta(microseconds=1)), rows.height)
            arrival = pl.col("dateTime") + pl.Series(delay).cast(pl.Duration("us"))
            rows_so_far = pl.concat([waiting[kind], rows.with_columns(arrival=arrival)], how="diagonal")
            has_come = pl.col("arrival") < pl.lit(end)
            waiting[kind] = rows_so_far.filter(~has_come)
            came[kind] = rows_so_far.filter(has_come).sort("arrival", "dateTime").drop("arrival")
        yield came


def chunk(events: Events, first: int) -> dict[str, pl.DataFrame]:
    """Return the events of one chunk by kind, in order of time."""
    random = np.random.default_rng([events.seed, first])
    number = np.arange(first, min(first + events.chunk, events.count))
    turn = number % _OF
    return {
        "person": _people(random, number[turn < _PEOPLE], events.rate),
        "auction": _auctions(random, number[(turn >= _PEOPLE) & (turn < _PEOPLE + _AUCTIONS)], events.rate),
        "bid": _bids(random, number[turn >= _PEOPLE + _AUCTIONS], events.rate, events.seed),
    }


def _people(random: np.random.Generator, number: np.ndarray, rate: int) -> pl.DataFrame:
    count = number.size
    first, last = _one_of(random, _FIRST_NAMES, count), _one_of(random, _LAST_NAMES, count)
    people = {
        "id": _FIRST_ID + number // _OF,
        "name": first + " " + last,
        "emailAddress": _text(random, np.full(count, 7)) + "@" + _text(random, np.full(count, 5)) + ".com",
        "creditCard": _digits(random, count) + " " + _digits(random, count) + " " + _digits(random, count),
        "city": _one_of(random, _CITIES, count),
        "state": _one_of(random, _STATES, count),
        "dateTime": _times(number, rate),
    }
    return pl.DataFrame(people).with_columns(extra=_filling(random, 200, 70, count))


def _auctions(random: np.random.Generator, number: np.ndarray, rate: int) -> pl.DataFrame:
    count, price = number.size, _prices(random, number.size)
    # An auction is open for up to twice the time in which a hundred auctions are opened.
    horizon = 100 * _OF // _AUCTIONS * 1_000_000 // rate
    expires = _micros(number, rate) + 1_000 + random.integers(0, 2 * horizon, count)
    auctions = {
        "id": _FIRST_ID + _last_auction(number),
        "itemName": _text(random, np.full(count, 20)),
        "description": _text(random, np.full(count, 100)),
        "initialBid": price,
        "reserve": price + _prices(random, count),
        "dateTime": _times(number, rate),
        "expires": _instants(expires),
        "seller": _person(random, number, hot=0),
        "category": _FIRST_CATEGORY + random.integers(0, _CATEGORIES, count),
    }
    return pl.DataFrame(auctions).with_columns(extra=_filling(random, 500, 170, count))


def _bids(random: np.random.Generator, number: np.ndarray, rate: int, seed: int) -> pl.DataFrame:
    count, last = number.size, _last_auction(number)
    first = np.maximum(last - 100, 0)
    some = first + (random.random(count) * (last - first + 11)).astype(np.int64)
    auction = np.where(random.random(count) < 1 / 2, last // 100 * 100, some)
    is_hot = random.random(count) < 1 / 2
    hot = _CHANNELS + random.integers(0, len(_HOT_CHANNELS), count)
    place = np.where(is_hot, hot, random.integers(0, _CHANNELS, count))
    bids = {
        "auction": _FIRST_ID + auction,
        "bidder": _person(random, number, hot=1),
        "price": _prices(random, count),
        **_channels(seed)[place].to_dict(),
        "dateTime": _times(number, rate),
    }
    return pl.DataFrame(bids).with_columns(extra=_filling(random, 100, 32, count))


def _channels(seed: int) -> pl.DataFrame:
    """Return each channel with its URL. The URL of nine in ten numbered channels has a channel id."""
    random = np.random.default_rng([seed, 2 << 32])
    names = pl.Series([*(f"channel-{channel}" for channel in range(_CHANNELS)), *_HOT_CHANNELS])
    words = [_text(random, np.full(len(names), 5)) for _ in range(3)]
    numbers = pl.Series(random.integers(0, 1 << 31, len(names))).cast(pl.String)
    has_id = (random.random(len(names)) < 9 / 10) & (np.arange(len(names)) < _CHANNELS)
    url = "https://www.nexmark.com/" + words[0] + "/" + words[1] + "/" + words[2] + "/item.htm?query=1"
    return pl.DataFrame({"channel": names, "url": (url + "&channel_id=" + numbers).zip_with(pl.Series(has_id), url)})


def _person(random: np.random.Generator, number: np.ndarray, *, hot: int) -> np.ndarray:
    """Return ids of people: with 3/4 the hot one of the last hundred, else one of the last thousand or of the next ten."""
    last = number // _OF
    active = np.minimum(last + 1, 1000)
    some = last + 1 - active + (random.random(number.size) * (active + 10)).astype(np.int64)
    return _FIRST_ID + np.where(random.random(number.size) < 3 / 4, last // 100 * 100 + hot, some)


def _last_auction(number: np.ndarray) -> np.ndarray:
    """Return the index of the newest auction at each event."""
    turn = np.clip(number % _OF - _PEOPLE, -1, _AUCTIONS - 1)
    return number // _OF * _AUCTIONS + turn


def _prices(random: np.random.Generator, count: int) -> np.ndarray:
    return np.round(10 ** (6 * random.random(count)) * 100).astype(np.int64)


def _micros(number: np.ndarray, rate: int) -> np.ndarray:
    return int(START.timestamp()) * 1_000_000 + number * 1_000_000 // rate


def _times(number: np.ndarray, rate: int) -> pl.Series:
    return _instants(_micros(number, rate))


def _instants(micros: np.ndarray) -> pl.Series:
    return pl.Series(micros).cast(pl.Datetime("us", "UTC"))


def _one_of(random: np.random.Generator, words: list[str], count: int) -> pl.Series:
    return pl.Series(words).gather(random.integers(0, len(words), count))


def _digits(random: np.random.Generator, count: int) -> pl.Series:
    return pl.Series(random.integers(1_000, 10_000, count)).cast(pl.String)


def _filling(random: np.random.Generator, size: int, others: int, count: int) -> pl.Series:
    """Return text that fills events up to their average size, give or take a fifth."""
    wanted = size - others
    return _text(random, random.integers(wanted - wanted // 5, wanted + wanted // 5 + 1, count))


def _text(random: np.random.Generator, lengths: np.ndarray) -> pl.Series:
    """Return words of lower-case letters with the given lengths."""
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    letters = random.integers(ord("a"), ord("z") + 1, int(ends[-1]), np.uint8)
    words = pa.LargeStringArray.from_buffers(lengths.size, pa.py_buffer(ends), pa.py_buffer(letters))
    series = pl.from_arrow(words)
    assert isinstance(series, pl.Series)  # noqa: S101 - an array becomes a series
    return series


def write_events(folder: Path, events: Events) -> Path:
    """Write all events, in a folder per kind; returns the folder."""
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
    for number, came in enumerate(arriving(events)):
        for kind, rows in came.items():
            path = folder / kind / f"{number:05d}.ndjson"
            rows.with_columns(
                pl.col(column).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ") for column in _TIMES if column in rows.columns
            ).write_ndjson(path)
            # Files are read in order of their modification times, which may be equal if files are written quickly.
            at = int(START.timestamp()) + number
            os.utime(path, (at, at))
    return folder
