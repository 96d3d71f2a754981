"""Sums of whole numbers over ranges are exact, up to the limits of 64 bits, and refused beyond them."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.keyed.rows.exact_sums import TotalTooLargeError
from keyfold.operators.aggregation.ranges import range_sums
from tests.examples import examples
from tests.on_a_grid import many_of

# Of which few, and many, reach the limits.
LIMITS = [-(2**63), 2**63 - 1, 2**62, -(2**62), 2**61, 2**60, 2**57, 1]


@examples(2000)
@given(many_of(st.none() | st.sampled_from(LIMITS) | st.integers(-(2**63), 2**63 - 1), 40), st.data())
def test_sums_of_ranges_are_exact_or_refused(values, data):
    # Also of one sign, and so small that only sums of several overflow.
    sign = data.draw(st.sampled_from([0, 1, -1]))
    numbers = [value and sign * (value % 2**61) for value in values] if sign else values
    begins = data.draw(st.lists(st.integers(0, len(numbers)), min_size=1, max_size=12))
    ends = [data.draw(st.integers(begin, len(numbers))) for begin in begins]
    first, last, series = np.array(begins), np.array(ends) - 1, pl.Series("total", numbers, dtype=pl.Int64)
    wanted = [sum(value or 0 for value in numbers[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    if all(-(2**63) <= total < 2**63 for total in wanted):
        assert range_sums(series, first, last, pl.Int64()).to_list() == wanted
    else:
        with pytest.raises(TotalTooLargeError, match="total"):
            range_sums(series, first, last, pl.Int64())
