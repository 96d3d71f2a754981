"""Simulate card payments, one JSON object per line; some cards are copied and used far away.

A card has a home city, and pays there in rounds of one to four payments, minutes apart. One round in fourteen is in another
city, hours after the round before. Two cases look like fraud but are not: rounds through two neighbouring cities, and online
shops, whose payments have the city of the shop.

**Fraud** is planted in one of 25 cards: a payment in a city where the owner is not, within ten minutes of one of the owner's
payments. The line does not show it; `SimulationSummary.planted` lists the frauds.
"""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

from keyfold.times import to_times
from spark_jobs.simulation.contract import HOUR, SECOND, Format, Ints, SimulatedEvents, SimulationRequest
from spark_jobs.simulation.faults import json_faults, json_field
from spark_jobs.streams import PAYMENTS

CITIES = (
    "Mannheim", "Ludwigshafen", "Mainz", "Wiesbaden", "Ulm", "Neu-Ulm",
    "Hamburg", "Leipzig", "Dresden", "Bremen", "Freiburg", "Rostock", "Kassel", "Trier",
)  # fmt: skip
"""The first six are three pairs of neighbours, separated by a bridge."""

_IN_PAIRS = 6

MERCHANTS = ("bakery", "grocer", "chemist", "café", "bookshop", "petrol station", "butcher", "kiosk")

ONLINE = "online shop"
_ONLINE_HOME = "Hamburg"

WITHIN = 600 * SECOND
"""The longest time between a fraud and the owner's payment, in microseconds."""

_OWNERS = 4417  # fixed seed, so that a card has the same home city in every call


@dataclass(frozen=True)
class PlantedFraud:
    """A payment with a copied card."""

    payment_id: str
    time: datetime
    city: str


def payments_table(rng: np.random.Generator, cards: int, begin: int, end: int) -> tuple[pl.DataFrame, Ints]:
    """Make clean payments sorted by time, including frauds.

    Args:
        cards: number of cards.
        begin: no payment is earlier, in microseconds since 1970.
        end: every payment is earlier.

    Returns:
        The columns of the stream `payments`, and the rows of the frauds. Every card has a payment.
    """
    card, time, city = _rounds(rng, cards, begin, end)
    is_online = rng.random(len(card)) < 0.004
    place = np.where(is_online, CITIES.index(_ONLINE_HOME), city)
    planted = _frauds(rng, card, time, place, end)
    card, time, place = (np.concatenate(pair) for pair in zip((card, time, place), planted, strict=True))
    is_online, frauds = np.append(is_online, np.zeros(len(planted[0]), dtype=bool)), len(planted[0])
    is_fraud = np.arange(len(card)) >= len(card) - frauds
    order = np.lexsort((card, time))
    amount = np.round(rng.lognormal(np.where(is_fraud, 5.5, 3.2), 0.8) + 0.01, 2)
    shop = np.where(is_online, len(MERCHANTS), rng.integers(0, len(MERCHANTS), len(card)))
    names = pl.Series([*MERCHANTS, ONLINE], dtype=pl.String)
    table = pl.DataFrame(
        {
            "card": pl.Series(card_numbers(cards), dtype=pl.String).gather(card[order]),
            "time": to_times(time[order]),
            "city": pl.Series(CITIES, dtype=pl.String).gather(place[order]),
            "amount": amount[order],
            "merchant": names.gather(shop[order]),
            # Ids include the begin of the call, so that no other call has the same ids.
            "payment_id": pl.Series(
                [f"{begin // SECOND:x}-{number:06}" for number in range(len(card))], dtype=pl.String
            ),
        }
    ).select(PAYMENTS.schema.names)
    return table, np.flatnonzero(is_fraud[order])


def card_numbers(count: int) -> list[str]:
    """Return card numbers that no bank issues: they begin with 9999."""
    return [f"9999-{number // 10_000:04}-{number % 10_000:04}" for number in range(count)]


def _rounds(rng: np.random.Generator, cards: int, begin: int, end: int) -> tuple[Ints, Ints, Ints]:
    """Return card, time and city of each honest payment; each slot of about three hours has at most one round per card."""
    slots = max(1, (end - begin) // (3 * HOUR))
    slot = (end - begin) // slots
    shops = rng.random((cards, slots)) < 0.3
    shops[np.arange(cards), rng.integers(0, slots, cards)] = True
    owner, at = np.nonzero(shops)
    home = np.random.default_rng(_OWNERS).integers(0, len(CITIES), max(cards, 100_000))[owner]
    # A round ends an hour before its slot does, so there is time to travel before the next round.
    away = rng.integers(0, len(CITIES), len(owner))
    city = np.where(rng.random(len(owner)) < 1 / 14, away, home)
    starts = begin + at * slot + (rng.random(len(owner)) * (slot - min(slot // 2, 2 * HOUR))).astype(np.int64)
    sizes = rng.integers(1, 4, len(owner), endpoint=True)
    number = np.repeat(np.arange(len(owner)), sizes)
    firsts = np.cumsum(sizes) - sizes
    gaps = rng.integers(60 * SECOND // 1000, 900 * SECOND // 1000, len(number)) * 1000
    gaps[firsts] = 0
    elapsed = np.cumsum(gaps)
    time = starts[number] + elapsed - elapsed[firsts][number]
    # Some payments of a round are in the neighbouring city. The cities of a pair differ in the last bit of their number.
    crosses = (city[number] < _IN_PAIRS) & (rng.random(len(number)) < 0.012)
    place = np.where(crosses, city[number] ^ 1, city[number])
    keeps = time < end
    keeps[firsts] = True
    return owner[number][keeps], time[keeps], place[keeps]


def _frauds(rng: np.random.Generator, card: Ints, time: Ints, place: Ints, end: int) -> tuple[Ints, Ints, Ints]:
    """Return card, time and city of the frauds: one for each copied card, soon after one of its owner's payments."""
    cards = int(card.max()) + 1
    copied = rng.permutation(cards)[: max(1, cards // 25)]
    found: list[tuple[int, int, int]] = []
    for victim in copied:
        own = np.flatnonzero(card == victim)
        early = own[time[own] + WITHIN < end]
        if not early.size:
            continue
        near = rng.choice(early)
        # Exclude the owner's cities and their neighbours.
        been = set(place[own].tolist()) | {int(city) ^ 1 for city in place[own] if city < _IN_PAIRS}
        elsewhere = [city for city in range(len(CITIES)) if city not in been]
        after = int(rng.integers(30 * SECOND // 1000, WITHIN // 1000)) * 1000 + 1
        found.append((int(victim), int(time[near]) + after, int(rng.choice(elsewhere))))
    victims, times, cities = (np.array([one[at] for one in found], dtype=np.int64) for at in range(3))
    return victims, times, cities


def make(rng: np.random.Generator, request: SimulationRequest) -> SimulatedEvents:
    """Make the clean events of a call, as lines."""
    table, planted = payments_table(rng, request.size, request.begin, request.end)
    frauds = tuple(
        PlantedFraud(number, time, city)
        for number, time, city in table[planted].select("payment_id", "time", "city").iter_rows()
    )
    time = pl.col("time").cast(pl.Int64)
    stamp = pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    line = pl.struct("payment_id", "card", "city", "merchant", "amount", stamp).struct.json_encode()
    events = table.select(time=time, over=time, key=pl.col("card"), ndjson=line)
    return SimulatedEvents(events, (Format("ndjson", _FAULTS),), frauds)


_FAULTS = json_faults("time") | {
    "empty card": json_field("card", '" "'),
    "no city": json_field("city", "null"),
    "amount is nought": json_field("amount", "0.0"),
    "amount is a word": json_field("amount", '"plenty"'),
}
