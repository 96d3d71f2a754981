"""Simulate card payments; some cards are copied and used far away.

A card has a home city, and pays there in rounds of one to four payments, minutes apart; one round in fourteen is in another city.
Some payments of a round are in the city across the river, or in an online shop, which has a city of its own. One card of
twenty-five is copied: it pays in a city where its owner is not, within ten minutes of one of the owner's payments.
"""

import numpy as np
import polars as pl

from keyfold.times import to_times
from spark_jobs.simulation.feed import HOUR, MINUTE, SECOND
from spark_jobs.streams import PAYMENTS

CITIES = (
    "Mannheim", "Ludwigshafen", "Mainz", "Wiesbaden", "Ulm", "Neu-Ulm",
    "Hamburg", "Leipzig", "Dresden", "Bremen", "Freiburg", "Rostock", "Kassel", "Trier",
)  # fmt: skip
"""The first six are three pairs of neighbours, separated by a bridge; cities of a pair differ in the last bit of their number."""

_IN_PAIRS, _ONLINE_HOME = 6, 6
_MERCHANTS = ("bakery", "grocer", "chemist", "café", "bookshop", "petrol station", "butcher", "kiosk", "online shop")
_OWNERS = 4417  # fixed seed, so that a card has the same home city in every call


def payments_table(rng: np.random.Generator, cards: int, begin: int, end: int) -> pl.DataFrame:
    """Make clean payments sorted by time, with the columns of the stream `payments`. Every card has a payment."""
    # A slot of about three hours has at most one round per card, which ends before the slot does.
    slots = max(1, (end - begin) // (3 * HOUR))
    slot = (end - begin) // slots
    pays = rng.random((cards, slots)) < 0.3
    pays[np.arange(cards), rng.integers(0, slots, cards)] = True
    owner, at = np.nonzero(pays)
    home = np.random.default_rng(_OWNERS).integers(0, len(CITIES), max(cards, 100_000))[owner]
    city = np.where(rng.random(len(owner)) < 1 / 14, rng.integers(0, len(CITIES), len(owner)), home)
    starts = begin + at * slot + (rng.random(len(owner)) * slot / 2).astype(np.int64)
    sizes = rng.integers(1, 4, len(owner), endpoint=True)
    of = np.repeat(np.arange(len(owner)), sizes)
    rank = np.arange(len(of)) - (np.cumsum(sizes) - sizes)[of]
    card, time = owner[of], starts[of] + rank * rng.integers(MINUTE, 10 * MINUTE, len(of))
    crosses = (city[of] < _IN_PAIRS) & (rng.random(len(of)) < 0.012)
    online = rng.random(len(of)) < 0.004
    place = np.where(online, _ONLINE_HOME, np.where(crosses, city[of] ^ 1, city[of]))
    shop = np.where(online, len(_MERCHANTS) - 1, rng.integers(0, len(_MERCHANTS) - 1, len(of)))
    # The first round of a card in the call is the one that is copied.
    copied = np.unique(card, return_index=True)[1][rng.permutation(cards)[: max(1, cards // 25)]]
    card, shop = np.append(card, card[copied]), np.append(shop, np.zeros(len(copied), dtype=np.int64))
    time = np.append(time, time[copied] + rng.integers(MINUTE // 2, 10 * MINUTE, len(copied)))
    place = np.append(place, (place[copied] + rng.integers(2, len(CITIES) - 1, len(copied))) % len(CITIES))
    order = np.lexsort((card, time))
    order = order[time[order] < end]
    return pl.DataFrame(
        {
            "card": pl.Series(card_numbers(cards), dtype=pl.String).gather(card[order]),
            "time": to_times(time[order]),
            "city": pl.Series(CITIES, dtype=pl.String).gather(place[order]),
            "amount": np.round(rng.lognormal(3.2, 0.8, len(order)) + 0.01, 2),
            "merchant": pl.Series(_MERCHANTS, dtype=pl.String).gather(shop[order]),
            # Ids include the begin of the call, so that no other call has the same ids.
            "payment_id": pl.Series([f"{begin // SECOND:x}-{number:06}" for number in range(len(order))]),
        }
    ).select(PAYMENTS.schema.names)


def card_numbers(count: int) -> list[str]:
    """Return card numbers that no bank issues: they begin with 9999."""
    return [f"9999-{number // 10_000:04}-{number % 10_000:04}" for number in range(count)]
