"""State as lines of JSON."""

import doctest
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.state.rows import lines
from keyfold.state.rows.lines import is_keyed, json_lines, keyed_rows

NOON = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def test_the_examples_hold():
    assert doctest.testmod(lines).failed == 0


def test_times_decimals_and_bytes_are_text_at_any_depth():
    row = {
        "at": NOON,
        "day": date(2026, 1, 1),
        "price": Decimal("1.50"),
        "raw": b"ab",
        "deep": [{"times": [NOON], "price": Decimal("2.25")}],
    }
    (line,) = json_lines(pl.DataFrame([row]))
    assert json.loads(line) == {
        "at": "2026-01-01T12:00:00.123456Z",
        "day": "2026-01-01",
        "price": "1.50",
        "raw": "YWI=",
        "deep": [{"times": ["2026-01-01T12:00:00.123456Z"], "price": "2.25"}],
    }


def test_a_keyed_line_is_one_name_with_objects_and_a_line_of_another_form_is_named():
    assert not any(map(is_keyed, ['{"user": "ann"}', '{"a": {}, "b": {}}', '{"a": []}', '{"a": [1]}', "[{}]", "no"]))
    with pytest.raises(ValueError, match="totals: line 3 is not"):
        keyed_rows({"totals": pl.Series(['{"ann": {"n": 1}}', "", '{"user": "bob"}'])}, ["user"])


@given(st.lists(st.tuples(st.text(), st.integers(-9, 9), st.text() | st.none()), max_size=20))
def test_any_text_comes_through(rows):
    frame = pl.DataFrame(rows, schema={"key": pl.String, "part": pl.Int64, "said": pl.String}, orient="row")
    assert [tuple(json.loads(line).values()) for line in json_lines(frame)] == rows


@given(
    st.lists(st.tuples(st.text(), st.integers(-9, 9), st.text() | st.none()), min_size=1, max_size=20), st.booleans()
)
def test_any_text_of_lines_of_a_key_is_read(rows, is_one_column):
    by_key = {}
    for key, part, said in rows:
        name = key if is_one_column else json.dumps([key, part])
        by_key.setdefault(name, []).append({"said": said})
    lines = [json.dumps({name: one if len(one) > 1 else one[0]}) for name, one in by_key.items()]
    assert all(map(is_keyed, lines))
    columns = ["key"] if is_one_column else ["key", "part"]
    read = keyed_rows({"": pl.Series(lines)}, columns).collect()
    expected = [(key, said) if is_one_column else (key, str(part), said) for key, part, said in rows]
    assert sorted(read.rows(), key=repr) == sorted(expected, key=repr)
