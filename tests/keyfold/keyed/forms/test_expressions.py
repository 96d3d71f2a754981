"""The canonical form of an expression is the same in every version of Polars, and another for every other expression."""

import json
import os
import subprocess
import sys

import polars as pl
import pytest

from keyfold.errors import Misconfigured
from keyfold.keyed.forms.expressions import _Translation, expression_tree
from tests.keyfold.keyed.forms.expression_catalogue import catalogue, form_of


def tree(expression):
    return expression_tree(expression, lambda _: "a function")


@pytest.mark.parametrize("text", catalogue())
def test_an_expression_has_the_form_that_records_have_of_it(text):
    assert form_of(text) == catalogue()[text]


def test_no_two_expressions_of_the_catalogue_have_one_form():
    forms = [json.dumps(form) for form in catalogue().values()]
    alike = {frozenset(text for text, form in catalogue().items() if json.dumps(form) == one) for one in forms}
    # Spelled in two ways, and the same to Polars.
    assert {group for group in alike if len(group) > 1} == {
        frozenset({'col("a")/2', 'col("a").truediv(2)'}),
        frozenset(
            {'col("s").str.contains("a",literal=True)', 'col("s").str.contains("a", literal=True, strict=False)'}
        ),
        frozenset({'col("a").forward_fill()', 'col("a").fill_null(strategy="forward")'}),
    }


def test_a_long_list_counts_with_all_its_values():
    cities = [f"city {number}" for number in range(1_000)]
    assert tree(pl.col("city").is_in(cities))[2][1] == ["lit", "list[string]", cities]
    assert tree(pl.col("city").is_in(cities)) != tree(pl.col("city").is_in([*cities[:500], "oslo", *cities[501:]]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pl.lit(1), pl.lit(1.0)),
        (pl.lit(1), pl.lit(1, pl.Int32)),
        (pl.lit(1), pl.lit(value=True)),
        (pl.lit("1"), pl.lit(1)),
        (pl.lit(0.0), pl.lit(-0.0)),
        (pl.lit(float("nan")), pl.lit(None)),
        (pl.lit(float("inf")), pl.lit(float("-inf"))),
        (pl.lit(None, pl.Int64), pl.lit(None, pl.String)),
        (pl.lit(pl.Series([1])), pl.lit([1])),
        (pl.lit(pl.Series([1, 2])), pl.lit(pl.Series([2, 1]))),
        (pl.lit(pl.Series([1])), pl.lit(pl.Series([1], dtype=pl.Int8))),
        (pl.lit(pl.Series([None, 1.0])), pl.lit(pl.Series([float("nan"), 1.0]))),
        (pl.col("a").is_in(["x"]), pl.col("a").is_in(["x"], nulls_equal=True)),
        (pl.col("a").map_elements(abs, pl.Int64), pl.col("a").map_elements(abs, pl.Int32)),
        (pl.col("a").map_elements(abs, pl.Int64), pl.col("a").map_elements(abs, pl.Int64, skip_nulls=False)),
    ],
)
def test_what_differs_for_polars_differs_in_the_form(one, other):
    assert json.dumps(tree(one)) != json.dumps(tree(other))


def test_neither_the_environment_nor_the_order_of_hashes_counts():
    program = (
        "from tests.keyfold.keyed.forms.expression_catalogue import *; print([form_of(text) for text in catalogue()])"
    )
    environments = [
        {"PYTHONHASHSEED": "1"},
        {
            "PYTHONHASHSEED": "2",
            "POLARS_FMT_TABLE_CELL_LIST_LEN": "1",
            "POLARS_FMT_STR_LEN": "3",
            "POLARS_FMT_MAX_COLS": "1",
        },
    ]
    one, other = (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], env={**os.environ, **more}, capture_output=True, check=True
        ).stdout
        for more in environments
    )
    assert one == other
    assert one.count(b"'lit'") > 100


def test_a_node_that_is_not_known_is_kept_with_all_it_has():
    translation = _Translation([], lambda _: "", [])
    node = {"NewThing": {"of": {"Column": "a"}, "level": 3, "how": ["Fast", {"Slow": 1}]}}
    assert translation.tree(node) == ["new_thing", {"of": ["col", "a"], "level": 3, "how": ["Fast", ["slow", 1]]}]
    other = {"Literal": {"Scalar": {"NewType": [1, 2]}}}
    assert translation.tree(other) == ["lit", "newtype", [1, 2]]


def test_a_function_of_an_expression_is_handed_over_as_the_author_gave_it():
    def doubled(value):
        return value * 2

    handed: list = []

    def label(function):
        handed.append(function)
        return str(len(handed))

    column = pl.col("a")
    both = column.map_elements(doubled, pl.Int64) + column.map_batches(doubled, pl.Int64)
    form = expression_tree(both, label)
    assert handed == [doubled, doubled]
    assert [form[2][1]["function"][1], form[3][1]["function"][1]] == ["1", "2"]


def test_other_threads_and_later_imports_do_not_meet_the_stand_in_of_cloudpickle():
    tree(pl.col("a").map_elements(lambda value: value, pl.Int64))
    assert "cloudpickle" not in sys.modules or hasattr(sys.modules["cloudpickle"], "loads")


def test_a_value_that_cannot_be_written_down_is_refused():
    with pytest.raises(Misconfigured, match="cannot be written down"):
        tree(pl.lit(object(), allow_object=True))
