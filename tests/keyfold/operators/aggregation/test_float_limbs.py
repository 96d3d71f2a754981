"""Limbs of floats that NumPy makes are those of the expressions, and sums of ranges those of plain Python, bit for bit."""

import math
import struct

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.operators.aggregation.aggregates import mean, types_of
from keyfold.operators.aggregation.float_limbs import NOT_FINITE, scale_and_limbs
from keyfold.operators.aggregation.parts import Naming, parts_of
from keyfold.operators.aggregation.ranges import joined_ranges
from tests.examples import examples
from tests.on_a_grid import many_of

# Of any bits, so subnormal ones and each NaN too; and at powers of 2**32, where scales change.
OF_BITS = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("d", struct.pack("Q", bits))[0])
AT_A_SCALE = st.builds(
    lambda power, towards, sign: sign * float(np.nextafter(2.0**power, towards)),
    st.sampled_from(range(-1056, 1024, 32)),
    st.sampled_from([-np.inf, np.inf]),
    st.sampled_from([1, -1]),
)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, 2.0**992, 1.0, 0.1]
FLOATS = [OF_BITS, AT_A_SCALE, st.sampled_from(SPECIAL), st.floats(-1e3, 1e3), st.floats()]
# Of few scales, which are added to each other, and of all.
VALUES = many_of(st.none() | st.one_of(*FLOATS), 40) | many_of(st.none() | st.floats(-4.0, 4.0) | st.just(2.0**33), 40)


def parts_of_mean():
    value = mean("value")
    columns = pl.Schema({"value": pl.Float64}).to_frame().to_arrow().schema
    types = types_of("test", value, columns)
    return parts_of("mean", value, types, "at", Naming(["value"], ["mean"]), None)


@pytest.mark.parametrize("kind", [pl.Float64, pl.Float32])
@examples(2000)
@given(values=VALUES)
def test_limbs_made_by_numpy_are_those_of_the_expressions(kind, values):
    parts, frame = parts_of_mean(), pl.DataFrame({"value": pl.Series(values, dtype=pl.Float64).cast(kind)})
    assert parts.floats is not None
    limbs = scale_and_limbs(frame.select(parts.floats).to_series())
    scale, *wanted = (part.value for part in parts.parts if part.join in ("scale", "limb"))
    # Of a missing value the expressions have no limbs, and NumPy has 0: in a sum they are the same.
    expected = frame.select(scale.alias("0"), *(limb.fill_null(0).alias(str(at + 1)) for at, limb in enumerate(wanted)))
    assert [one.to_list() for one in limbs] == [one.to_list() for one in expected]
    assert all(one.dtype == pl.Int64 for one in limbs)


@examples(2000)
@given(VALUES, st.data())
def test_sums_of_ranges_are_those_of_the_limbs_at_their_greatest_scale(values, data):
    parts, frame = parts_of_mean(), pl.DataFrame({"value": pl.Series(values, dtype=pl.Float64)})
    rows = frame.select(part.value.alias(part.name) for part in parts.parts)
    begins = data.draw(st.lists(st.integers(0, len(values)), min_size=1, max_size=12))
    # A range may be empty.
    ends = [data.draw(st.integers(begin, len(values))) for begin in begins]
    first, last = np.array(begins), np.array(ends) - 1
    joined = pl.DataFrame(joined_ranges(parts, rows, np.ones(len(values), bool), first, last))
    wanted = [sums_by_hand(rows.rows()[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    assert joined.rows() == wanted
    means = joined.select(parts.result).to_series().to_list()
    assert [bits(mean) for mean in means] == [bits(mean_by_hand(sums)) for sums in wanted]


def bits(value):
    """The bits of a float; each NaN is the same."""
    return None if value is None else "NaN" if math.isnan(value) else struct.pack("d", value)


def mean_by_hand(sums):
    scale, high, middle, low, number = sums
    if scale is None:
        return None
    if scale == NOT_FINITE:
        return math.nan if low or (high and middle) else math.inf if high else -math.inf
    try:
        return math.ldexp(float((high << 64) + (middle << 32) + low), 32 * (scale - 2)) / number
    except OverflowError:
        return math.copysign(math.inf, high)


def sums_by_hand(rows):
    """Sum rows of a scale, three limbs, and a number."""
    scales = [scale for scale, *_ in rows if scale is not None]
    sums = [0, 0, 0]
    for scale, *limbs, _ in rows:
        if scale is not None:
            steps = max(scales) - scale
            for at in range(3 - steps):
                sums[at + steps] += limbs[at]
    return (max(scales, default=None), *sums, sum(row[-1] for row in rows))
