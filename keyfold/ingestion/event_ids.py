"""Fingerprints of event ids: two independent 64-bit hashes that are the same in all versions and on all machines."""

import numpy as np
import polars as pl
import polars_hash as ph

from keyfold.ingestion.duplicates import Ids
from keyfold.stream import Stream
from keyfold.times import to_micros

ENCODING = "xxhash64+wyhash 1"
"""Names the method of fingerprints. It must not change for a stream's ingest."""


def event_ids(stream: Stream, events: pl.DataFrame) -> Ids:
    """Compute the fingerprints of events.

    Args:
        stream: the stream, whose `event_id` names the columns that identify an event.
        events: events with at least those columns and the event time, which is never NULL.
    """
    hashed = events.select(_encoded(stream, events).alias("id")).select(
        ph.col("id").nchash.xxhash64().alias("first"),  # pyright: ignore[reportAttributeAccessIssue]
        ph.col("id").nchash.wyhash().alias("second"),  # pyright: ignore[reportAttributeAccessIssue]
    )
    return Ids(
        hashed["first"].to_numpy(), hashed["second"].to_numpy(), to_micros(events[stream.event_time]).astype(np.int64)
    )


def _encoded(stream: Stream, events: pl.DataFrame) -> pl.Expr:
    """Encode ids as texts, injectively: different ids have different texts, whatever their values.

    Numbers and times cannot contain the separator. Texts can, so each is preceded by its length, except for the last one,
    which ends with the id.
    """
    numbers, texts = [], []
    for name in stream.event_id:
        column, dtype = pl.col(name), events.schema[name]
        # JSON distinguishes ["a", "b"] from ["a, b"].
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
        number = column.cast(pl.Float64)
        # Equal ids have equal fingerprints, and -0.0 equals 0.0. Adding 0.0 does not change the sign in Polars.
        number = pl.when(number == 0).then(0.0).otherwise(number)
        # The bits, since the text of a float may change with a version.
        return number.map_batches(_bits, return_dtype=pl.Int64)
    if dtype.is_temporal():
        return column.to_physical()
    return column.cast(pl.Int8) if dtype == pl.Boolean else column


def _bits(values: pl.Series) -> pl.Series:
    bits = pl.Series(values.name, values.fill_null(0.0).to_numpy().view(np.int64))
    return bits.set(values.is_null(), None)
