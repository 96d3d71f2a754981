"""A written part, in either form, gives back its rows to the last bit, with any columns and values."""

import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from keyfold.keyed.calling.slots import SLOT
from keyfold.keyed.parts.part_files import ARROW, PARQUET, open_part, write_part
from keyfold.keyed.parts.part_rows import MARK, Sizes
from tests.examples import examples

KINDS = {
    "text": pl.String,
    "count": pl.Int64,
    "share": pl.Float64,
    "is_open": pl.Boolean,
    "price": pl.Decimal(10, 2),
    "at": pl.Datetime("us", "UTC"),
    "many": pl.List(pl.Int32),
    "both": pl.Struct({"left": pl.String, "right": pl.Int8}),
    SLOT: pl.UInt64,
    MARK: pl.UInt8,
}
# Few values of each, so that columns with one value are common.
ROW = st.tuples(
    st.sampled_from(["", "a", None]),
    st.sampled_from([0, 1, None]),
    st.sampled_from([0.0, -0.0, 1.5, float("nan"), None]),
    st.sampled_from([True, False, None]),
    st.sampled_from(["1.10", None]),
    st.sampled_from([0, None]),
    st.sampled_from([[], [1], [None], None]),
    st.sampled_from([{"left": "a", "right": 1}, {"left": None, "right": None}, None]),
    st.integers(0, 5),
    st.sampled_from([0, 1]),
)


@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROW, min_size=1, max_size=6), inline=st.booleans())
@pytest.mark.parametrize("ending", [PARQUET, ARROW])
def test_any_rows_come_back_as_they_were(tmp_path_factory, rows, inline, ending):
    columns = dict(zip(KINDS, zip(*rows, strict=True), strict=True))
    given_rows = pl.DataFrame([pl.Series(name, columns[name], strict=False).cast(kind) for name, kind in KINDS.items()])
    given_rows = given_rows.sort(SLOT, maintain_order=True)
    folder = tmp_path_factory.mktemp("parts")
    part = write_part(given_rows, 3, folder, Sizes(rows_a_group=2, inline_bytes=1 << 20 if inline else 0), ending)
    assert part.file.endswith(ending) != inline
    found = open_part(part, folder).between(0, 1 << 63)
    assert_frame_equal(found, given_rows)
    assert [str(one) for one in found["share"]] == [str(one) for one in given_rows["share"]]
    slots = given_rows[SLOT].unique().sort()[:2].to_numpy()
    wanted = given_rows.filter(pl.col(SLOT).is_in(slots.tolist())).select("count", SLOT)
    assert_frame_equal(open_part(part, folder).of(slots, ["count", SLOT]), wanted)
