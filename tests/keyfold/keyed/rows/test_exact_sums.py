"""Sums are those of Python's integers, or refused."""

from collections import Counter
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyfold.keyed.rows.exact_sums import TotalTooLargeError, summed
from tests.examples import examples

INT64, DECIMAL = (-(2**63), 2**63 - 1), (1 - 10**38, 10**38 - 1)


@pytest.mark.parametrize(("kind", "borders"), [(pl.Int64(), INT64), (pl.Decimal(38, 0), DECIMAL)], ids=str)
@examples(1000)
@given(drawn=st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 6)), min_size=1, max_size=6))
@example(drawn=[("a", 1), ("a", 1), ("a", 1)])  # wraps around into what fits
@example(drawn=[("b", 1), (None, 1), (None, 6), ("a", 1), ("a", 2), (None, 2)])
def test_sums_by_key_are_exact_or_refused(kind, borders, drawn):
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
    if any(not least <= total <= most for total in totals.values()):
        with pytest.raises(TotalTooLargeError, match=r"a total of value does not fit into (Int64|Decimal)"):
            summed(frame, ["key"], ["value"])
    else:
        assert dict(summed(frame, ["key"], ["value"]).with_columns(pl.col("value").to_physical()).rows()) == dict(
            totals
        )
