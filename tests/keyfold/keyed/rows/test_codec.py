"""Blobs: what goes in comes out, of every size and type."""

from datetime import UTC, datetime

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold.keyed.rows.codec import decode, encode

SCHEMA = {
    "key": pl.String,
    "number": pl.Int64,
    "small": pl.Int16,
    "part": pl.Float64,
    "is": pl.Boolean,
    "at": pl.Datetime("us", "UTC"),
    "money": pl.Decimal(20, 4),
    "bytes": pl.Binary,
    "list": pl.List(pl.String),
    "record": pl.Struct({"a": pl.Int64, "b": pl.List(pl.Float64)}),
}


def rows(count):
    """Rows of every type that state has, with values that are not there in every column but the key."""
    number = range(count)
    values = {
        "key": [f"key {one} ö" for one in number],
        "number": [one << 40 for one in number],
        "small": [one % 999 - 500 for one in number],
        "part": [one / 3 for one in number],
        "is": [one % 2 == 0 for one in number],
        "at": [datetime.fromtimestamp(one, UTC) for one in number],
        "money": [None if one % 4 else f"{one}.25" for one in number],
        "bytes": [bytes([one % 256]) * (one % 7) for one in number],
        "list": [["", f"{one}"] * (one % 3) for one in number],
        "record": [{"a": one, "b": [one / 2] * (one % 3)} for one in number],
    }
    frame = pl.DataFrame({**values, "money": pl.Series(values["money"], dtype=pl.String).cast(SCHEMA["money"])}, SCHEMA)
    return frame.with_columns(pl.when(pl.int_range(pl.len()) % 5 > 0).then(pl.exclude("key")))


@pytest.mark.parametrize("count", [0, 1, 10, 200, 2_000, 20_000])
def test_a_frame_of_any_size_comes_back_as_it_was(count):
    frame = rows(count)
    assert_frame_equal(decode(encode(frame)), frame)


@pytest.mark.parametrize("count", [3, 2_000])
def test_a_blob_that_is_cut_short_anywhere_is_an_error(count):
    payload = encode(rows(count))
    # At each place of a small blob, where a stream reads as one of no rows if it is cut behind its schema.
    for length in {*range(0, len(payload), len(payload) // 1_000 + 1), len(payload) - 1}:
        with pytest.raises((pl.exceptions.PolarsError, OSError)):
            decode(payload[:length])


@pytest.mark.parametrize("kind", [pl.String, pl.List(pl.String), pl.Struct({"text": pl.String}), pl.Binary])
def test_a_few_rows_of_many_take_the_room_of_a_few(kind):
    texts = pl.Series([f"{one:040}" for one in range(20_000)])
    value = {pl.List: lambda one: [one], pl.Struct: lambda one: {"text": one}}.get(type(kind), lambda one: one)
    many = pl.DataFrame({"value": pl.Series(map(value, texts)).cast(kind)})
    few = many[list(range(0, 20_000, 1_000))]
    assert_frame_equal(decode(encode(few)), few)
    assert len(encode(few)) < 2_000
