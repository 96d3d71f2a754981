"""0.0 and -0.0 are one value, and so are all NaN: rows have the same bits, whatever came first."""

import struct
from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from keyfold import KeyedJob, Step, Stream
from keyfold.keyed.job.inputs import STEP_DECIDES, Input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.tables import Upsert
from keyfold.stream import TIMESTAMP
from tests.examples import examples
from tests.lake import Lake
from tests.shop import NOON, USER

VALUE = pa.field("value", pa.float64(), nullable=False)
READING = pa.schema([USER, pa.field("at", TIMESTAMP, nullable=False), VALUE, pa.field("small", pa.float32())])
HELD = pa.schema([USER, VALUE, pa.field("readings", pa.int64()), pa.field("least", pa.float32())])
BITS = [0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x8000000000000000, 0, 0x3FF8000000000000]


def float_of(bits):
    return np.array([bits], np.uint64).view(np.float64)


def count_values(state, events, clock):
    """How many readings there are of each value."""
    came = events.select(USER.name, "value", pl.lit(1, pl.Int64).alias("readings"), pl.col("small").alias("least"))
    held = pl.concat([state, came]).group_by(USER.name, "value").agg(pl.col("readings").sum(), pl.col("least").min())
    return Step(state=held, output=held)


VALUES = KeyedJob(
    "values",
    Input(Stream("readings", READING, event_time="at"), columns=READING, final_at=STEP_DECIDES),
    "user",
    State(HELD, events=pl.col("readings").sum()),
    count_values,
    Upsert(HELD, ("user", "value"), events=pl.lit(0)),
    key_groups=1,
)


@examples(15)
@given(st.lists(st.lists(st.sampled_from(BITS), min_size=1, max_size=4), min_size=1, max_size=3))
def test_equal_numbers_are_one_key_of_a_table_and_their_bits_do_not_follow_what_came_first(tmp_path_factory, batches):
    lake = Lake(tmp_path_factory.mktemp("lake"))
    for batch in batches:
        values = pl.Series(np.concatenate([float_of(bits) for bits in batch]))
        rows = {"user": ["ann"] * len(batch), "at": [NOON] * len(batch), "value": values}
        lake.put(pl.DataFrame(rows).with_columns(small=pl.col("value").cast(pl.Float32)), "readings")
        lake.run(VALUES)
    plain = {0x7FF8000000000001: BITS[0], 0xFFF8000000000000: BITS[0], 0x8000000000000000: 0}
    expected = Counter(plain.get(bits, bits) for batch in batches for bits in batch)
    found = [(int(np.float64(value).view(np.uint64)), count) for _, value, count, _ in lake.rows("values")]
    assert sorted(found) == sorted(expected.items())
    assert all(struct.pack("f", least) != struct.pack("f", -0.0) for *_, least in lake.rows("values"))


def test_a_step_may_write_minus_zero_which_is_zero_in_its_table(tmp_path):
    lake = Lake(tmp_path)

    def negative(state, events, clock):
        return Step(
            state=state,
            output=events.select("user", -pl.col("value"), pl.lit(1, pl.Int64).alias("readings"), least="small"),
        )

    came = pl.DataFrame({"user": ["ann"], "at": [NOON], "value": [0.0]})
    lake.put(came.with_columns(small=pl.col("value").cast(pl.Float32)), "readings")
    lake.run(replace(VALUES, step=negative))
    ((_, value, *_),) = lake.rows("values")
    assert struct.pack("d", value) == struct.pack("d", 0.0)
