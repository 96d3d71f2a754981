"""Fingerprints of event ids: 128 bits of two independent hashes that stay the same over versions and machines."""

import numpy as np
import polars as pl
import polars_hash as ph

from keyfold.ingestion.duplicates import Ids
from keyfold.stream import Stream
from keyfold.times import to_micros

ENCODING = "xxhash64+wyhash 1"
"""Names how ids become fingerprints; an index that was made another way is made anew."""


def event_ids(stream: Stream, events: pl.DataFrame) -> Ids:
    """The fingerprints of events and their times.

    Args:
        stream: says which columns identify an event.
        events: at least those columns and the event time, which is never NULL.
    """
    hashed = events.select(_encoded(stream, events).alias("id")).select(
        ph.col("id").nchash.xxhash64().alias("first"),  # pyright: ignore[reportAttributeAccessIssue]
        ph.col("id").nchash.wyhash().alias("second"),  # pyright: ignore[reportAttributeAccessIssue]
    )
    return Ids(
        hashed["first"].to_numpy(), hashed["second"].to_numpy(), to_micros(events[stream.event_time]).astype(np.int64)
    )


def _encoded(stream: Stream, events: pl.DataFrame) -> pl.Expr:
    """One text an id, and no two ids of one text, whatever their values hold.

    Numbers and times hold no separator. Texts may: each has its length before it but for the last of all, which ends
    where the id ends.
    """
    numbers, texts = [], []
    for name in stream.event_id:
        column, dtype = pl.col(name), events.schema[name]
        # As JSON, which tells ["a", "b"] from ["a, b"].
        if dtype.is_nested():
            column, dtype = pl.struct(name).struct.json_encode(), pl.String()
        if dtype == pl.String:
            texts.append(column)
        else:
            numbers.append(_as_integer(column, dtype).cast(pl.String).fill_null("N"))
    parts = list(numbers)
    for text in texts[:-1]:
        parts += [text.str.len_bytes().cast(pl.String).fill_null("N"), text.fill_null("")]
    if texts:
        parts.append(pl.when(texts[-1].is_null()).then(pl.lit("N")).otherwise(pl.lit("T") + texts[-1]))
    return pl.concat_str(parts, separator="\x1f")


def _as_integer(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if dtype.is_float():
        # The bits, since how a number is written may change with a version; + 0 makes one of both zeros.
        return (column.cast(pl.Float64) + 0.0).map_batches(_bits, return_dtype=pl.Int64)
    if dtype.is_temporal():
        return column.to_physical()
    return column.cast(pl.Int8) if dtype == pl.Boolean else column


def _bits(values: pl.Series) -> pl.Series:
    bits = pl.Series(values.name, values.fill_null(0.0).to_numpy().view(np.int64))
    return bits.set(values.is_null(), None)
