"""An expression is printed as its author would write it: the text is Python, and means what the expression means."""

import ast
import json
import re
from itertools import pairwise
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from keyfold.keyed.forms.expression_text import expression_text
from keyfold.keyed.forms.expressions import expression_tree
from keyfold.keyed.forms.form_text import change_text
from keyfold.operators import divided
from keyfold.times import period_start
from tests.keyfold.keyed.forms.expression_catalogue import NAMES, catalogue

COLUMNS = ("a", "at", "b", "city", "d", "k", "l", "n", "s", "st", "t", "x")
WRITTEN = {
    **{name: getattr(pl, name) for name in dir(pl) if not name.startswith("_")},
    **{name: pl.col(name) for name in COLUMNS},
    **NAMES,
    "ZoneInfo": ZoneInfo,
    "divided": divided,
    "function": lambda value: value,
}
INTERNAL = re.compile(
    r"\b(Strict|NonStrict|Ignore|Both|HalfToEven|Nearest|GroupsToRows|Microseconds|Average|WithFields|List|dyn|Wildcard)\b(?!\()"
    r"|PLPYFN|\b[0-9]*[a-f][0-9a-f]{15,}|<function|OPTIONAL_|\bNone, None\b"
)
"""What Polars calls variants and keeps for itself."""
SAID_OTHERWISE = re.compile(
    # Selectors, plug-ins, and what Polars has several names for, or no name in Python.
    r"selector|nth|pl\.Int64\)|nchash|arctan2|rolling|format|ranges|corr|cov|sample|kurtosis|hist|value_counts|rank|"
    r"interpolate|top_k|cut\(|search_sorted|index_of|with_fields|rename_fields|str\.join|json_decode|repeat_by|"
    # A type or a value that the place of the text decides, and calls of functions.
    r"Series|lit\(None|Decimal|pl\.datetime\(2026,1|pl\.date\(|map_|datetime\(2026, 1, 1, tz|\"x\", \"y\"|coalesce|concat_str|"
    r"descending=|timedelta|epoch|time_zone=\"UTC\""
)


def form_of(expression):
    tree = expression_tree(expression, lambda _: "a function")
    return json.loads(json.dumps(tree))


@pytest.mark.parametrize(("written", "tree"), catalogue().items())
def test_the_text_of_an_expression_is_python_that_means_the_same(written, tree):
    text = expression_text(tree)
    ast.parse(text)
    assert not INTERNAL.search(text)
    if not SAID_OTHERWISE.search(written):
        expression = eval(text, dict(WRITTEN))  # noqa: S307 - made of the catalogue
        assert form_of(expression if isinstance(expression, pl.Expr) else pl.lit(expression)) == tree


def test_most_of_the_catalogue_means_the_same():
    assert sum(not SAID_OTHERWISE.search(written) for written in catalogue()) > 180


def test_every_two_expressions_have_a_change_in_words():
    trees = [{"$": "expression", "of": tree} for tree in catalogue().values()]
    for before, after in pairwise(trees):
        assert " → " in change_text(before, after)
    one, other = (
        {"$": "expression", "of": form_of(pl.col("s").nchash.xxhash64(seed=seed))}  # type: ignore[attr-defined]
        for seed in (7, 8)
    )
    # What has no text of its own must not look like no change.
    assert change_text(one, other).endswith("with other options")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (divided(pl.col("n"), 4), "divided(n, 4)"),
        (period_start(pl.col("at"), pl.Series([3_600_000_000]).cast(pl.Duration("us"))[0]), "period_start(at, '1h')"),
        (pl.col("class") > pl.col("max speed"), "col('class') > col('max speed')"),
        (pl.col("at") - pl.duration(hours=1, minutes=30), "at - timedelta(hours=1, minutes=30)"),
        ((pl.col("a") + 1) * 2 > -pl.col("b"), "((a + 1) * 2) > -b"),
        (pl.col("city").is_in([str(number) for number in range(20)]), "'11', … (20 values)"),
    ],
)
def test_an_expression_as_an_author_writes_it(expression, text):
    assert text in expression_text(form_of(expression))
