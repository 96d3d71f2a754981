"""Score the detection of planted frauds: a payment counts as found if a match begins or ends with it."""

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class FraudScore:
    """The numbers of true and false matches.

    Attributes:
        planted: number of payments with copied cards.
        found: how many of them are in a match.
        matches: number of rows of `card_in_two_cities`.
        false: how many of them have only honest payments.
    """

    planted: int
    found: int
    matches: int
    false: int


def score_fraud(matches: pl.DataFrame, planted: Collection[str]) -> FraudScore:
    """Score rows of `card_in_two_cities`.

    Args:
        matches: the rows, with at least `first_payment_id` and `last_payment_id`.
        planted: `payment_id` of the planted payments.

    Example:
        >>> matches = pl.DataFrame({"first_payment_id": ["a", "b", "d"], "last_payment_id": ["b", "c", "e"]})
        >>> score_fraud(matches, {"b", "f"})
        FraudScore(planted=2, found=1, matches=3, false=1)
    """
    named = set(matches["first_payment_id"]) | set(matches["last_payment_id"])
    true = matches.select(is_true(planted).sum()).item()
    return FraudScore(len(planted), len(named & set(planted)), matches.height, matches.height - true)


def is_true(planted: Collection[str]) -> pl.Expr:
    """Return whether a match begins or ends with a planted payment."""
    return pl.any_horizontal(pl.col("first_payment_id", "last_payment_id").is_in(list(planted)))
