"""Which key group a key belongs to: a hash that is the same for ever, on every machine and in every version.

xxHash64 (Collet, https://xxhash.com) with seed 0 of the key's columns as text, parted by a unit separator.
"""

from dataclasses import dataclass
from typing import Any, cast

import polars as pl
import polars_hash  # noqa: F401 - gives expressions their `nchash`
import pyarrow as pa
from pyarrow import types

from keyfold.errors import Misconfigured

HASH = "xxhash64/text/1"
"""Names what this module does; a generation records it."""


def key_hash(columns: tuple[str, ...]) -> pl.Expr:
    """The hash of the columns' values, 64 bits; see `check_hashable` for what they may be."""
    texts = [_text(column) for column in columns]
    # With a separator: ("a", "bc") and ("ab", "c") are two keys.
    text = texts[0] if len(texts) == 1 else pl.concat_str(texts, separator="\x1f")
    return _xxhash64(text)


@dataclass(frozen=True)
class PartOf:
    """A derived column: into which of so many parts an event falls, by a hash of these columns, of any type, NULL too."""

    columns: tuple[str, ...]
    parts: int

    def expression(self) -> pl.Expr:
        """The part, 0 to `parts` - 1."""
        return (_xxhash64(pl.struct(self.columns).struct.json_encode()) % self.parts).cast(pl.Int64)


def check_hashable(where: str, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """See that values of these columns that are equal have one text.

    Raises:
        KeyfoldError: a column's type is none of those; says which are.
    """
    for column in columns:
        kind = schema.field(column).type
        if not (
            types.is_string(kind)
            or types.is_large_string(kind)
            or types.is_integer(kind)
            or types.is_boolean(kind)
            or types.is_temporal(kind)
        ):
            raise Misconfigured(
                f"{where} column {column} is {kind}, which is no key; use text, whole numbers, truth values or times"
            )


def _text(column: str) -> pl.Expr:
    # A time as microseconds: its text would depend on how Polars writes times.
    return pl.col(column).to_physical().cast(pl.String)


def _xxhash64(text: pl.Expr) -> pl.Expr:
    # Not Polars' own hash, which differs from version to version: state lies where its key's hash says.
    return cast(Any, text).nchash.xxhash64()
