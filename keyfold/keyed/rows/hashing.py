"""Hash keys, by which they are assigned to key groups. The hash must be the same on every machine and in every version.

It is xxHash64 (Collet, https://xxhash.com) with seed 0, of the key's columns as text, joined by a unit separator.
"""

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.errors import Misconfigured
from keyfold.stream.refined import xxhash64

HASH = "xxhash64/text/1"
"""Name of the hash, which a generation records."""


def key_hash(columns: tuple[str, ...], typed: Mapping[str, pl.Expr] = MappingProxyType({})) -> pl.Expr:
    """Return the 64-bit hash of the columns' values; see `check_hashable` for their types.

    Args:
        columns: the columns of the key.
        typed: columns whose values are converted first, by name.
    """
    texts = [_text(typed.get(column, pl.col(column))) for column in columns]
    # The separator distinguishes the keys ("a", "bc") and ("ab", "c").
    text = texts[0] if len(texts) == 1 else pl.concat_str(texts, separator="\x1f")
    return xxhash64(text)


def check_hashable(subject: str, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """Check that key columns have types whose equal values have the same text.

    Raises:
        KeyfoldError: a column has another type; names the types that are allowed.
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
                f"{subject} column {column} is {kind}, which cannot be a key; use text, whole numbers, truth values or times"
            )


def _text(value: pl.Expr) -> pl.Expr:
    # Times as microseconds: their text could change with the version of Polars.
    return value.to_physical().cast(pl.String)
