"""A share of the keys of a job, which a trial plays in place of all: the same keys in each job that is keyed alike."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from keyfold.errors import Misconfigured
from keyfold.keyed.rows.hashing import key_hash

_PARTS = 1_000_000
# Key groups follow from the lower bits of the hash, and the order within a group from the upper ones.
_SHIFT = 1 << 16


@dataclass(frozen=True)
class KeyShare:
    """The keys whose hash is in a share of all hashes.

    Attributes:
        key: the columns of the key.
        share: the share, more than 0 and at most 1.

    Raises:
        Misconfigured: the share is not such a number.

    Example:
        >>> rows = pl.DataFrame({"user": [f"user-{number}" for number in range(10_000)]})
        >>> rows.filter(KeyShare(("user",), 0.01).condition(rows.schema)).height
        126
    """

    key: tuple[str, ...]
    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise Misconfigured(f"share is {self.share:g}; give a number above 0 and at most 1, such as 0.01")

    def condition(self, kinds: Mapping[str, pl.DataType]) -> pl.Expr:
        """Return which rows have one of the keys. A key that is NULL counts as one, so that it is refused as in a run of all keys.

        Args:
            kinds: the types that the key's columns have in the events of the job, by name.
        """
        if self.share == 1:
            return pl.lit(value=True)
        typed = {name: pl.col(name).cast(kinds[name]) for name in self.key}
        hashed = key_hash(self.key, typed)
        return ((hashed // _SHIFT) % _PARTS < round(self.share * _PARTS)).fill_null(value=True)
