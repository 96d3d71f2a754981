"""Sums are those of Python's integers, or refused."""

from collections import Counter
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyfold.keyed.rows.exact_sums import TotalTooLargeError, in_int64, summed, sums_from
from tests.examples import examples

INT64, DECIMAL = (-(2**63), 2**63 - 1), (1 - 10**38, 10**38 - 1)


@pytest.mark.parametrize(("kind", "borders"), [(pl.Int64(), INT64), (pl.Decimal(38, 0), DECIMAL)], ids=str)
@examples(1000)
@given(drawn=st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 6)), min_size=1, max_size=6))
@example(drawn=[("a", 1), ("a", 1), ("a", 1)])  # wraps around into what fits
@example(drawn=[("b", 1), (None, 1), (None, 6), ("a", 1), ("a", 2), (None, 2)])
def test_sums_by_key_are_exact_or_the_first_that_does_not_fit_is_named(kind, borders, drawn):
    least, most = borders
    choice = [least, most, 1, -1, most // 2, 2**62, None]
    rows = [(key, choice[number]) for key, number in drawn]
    values = [value if value is None or kind == pl.Int64 else Decimal(value) for _, value in rows]
    frame = pl.DataFrame(
        {"key": pl.Series([key for key, _ in rows], dtype=pl.String), "value": pl.Series(values, dtype=kind)}
    )
    totals = Counter()
    for key, value in rows:
        totals[key] += value or 0
    if unfit := [(key, total) for key, total in totals.items() if not least <= total <= most]:
        key, total = unfit[0]
        shown, held = (total, "a 64-bit integer") if kind == pl.Int64 else (f"{total:.6g}", "a decimal of 38 digits")
        with pytest.raises(TotalTooLargeError) as error:
            summed(frame, ["key"], ["value"])
        assert f"total of value for key={key} comes to {shown}, which {held} does not hold" in str(error.value)
    else:
        assert dict(summed(frame, ["key"], ["value"]).with_columns(pl.col("value").to_physical()).rows()) == dict(
            totals
        )


@examples(1000)
@given(ranges=st.lists(st.lists(st.sampled_from([*INT64, 1, -1, 2**31, -(2**32)]), min_size=1, max_size=4), max_size=4))
def test_sums_of_ranges_are_exact_or_the_first_that_does_not_fit_is_named(ranges):
    first = np.cumsum([0, *map(len, ranges)], dtype=np.intp)[:-1]
    found = sums_from(first, np.array([value for part in ranges for value in part], dtype=np.int64))
    totals = [sum(part) for part in ranges]
    assert found.to_list() == totals
    names = pl.Series("ride", [f"ride {number}" for number in range(len(ranges))], dtype=pl.String)
    if unfit := [row for row, total in enumerate(totals) if not INT64[0] <= total <= INT64[1]]:
        with pytest.raises(
            TotalTooLargeError, match=rf"distance for ride=ride {unfit[0]} comes to {totals[unfit[0]]},"
        ):
            in_int64(found, "distance", names)
    else:
        assert in_int64(found, "distance", names).tolist() == totals
