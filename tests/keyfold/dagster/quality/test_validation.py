"""Validation: Polars says what Great Expectations says on pandas, in bounded memory, and reads nothing but the rows."""

import doctest
import math
from copy import deepcopy
from datetime import date
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.dagster.quality import serialised, validation
from keyfold.dagster.quality.evaluation_plans import plan_of
from keyfold.dagster.quality.gx_on_pandas import evaluate_by_gx
from keyfold.dagster.quality.outcome import EXAMPLES, Outcome
from keyfold.dagster.quality.serialised import Refused
from keyfold.dagster.quality.validation import validate
from keyfold.suite import Expectation, critical
from tests.examples import examples

NAN = float("nan")
SCHEMA = {
    "whole": pl.Int64,
    "narrow": pl.Int32,
    "share": pl.Float64,
    "word": pl.String,
    "yes": pl.Boolean,
    "day": pl.Date,
}
NUMBERS = ["whole", "narrow", "share"]
WHOLE = st.integers(-2, 3)
# On a coarse grid, so that values meet each other and the bounds; 0.0 and -0.0 are one.
SHARE = st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 1e300])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "whole": WHOLE,
    "narrow": WHOLE,
    "share": SHARE,
    "word": st.sampled_from(["", "a", "b", "ab", "é🙂", "A", "a b", "12"]),
    "yes": st.booleans(),
    "day": st.dates().map(lambda day: day.replace(year=2026, month=1, day=1 + day.day % 3)),
}
TABLES = st.lists(st.fixed_dictionaries({name: st.none() | one for name, one in VALUES.items()}), max_size=8).map(
    lambda rows: pl.DataFrame(rows, schema=SCHEMA)
)
MOSTLY = st.sampled_from([{}, {"mostly": 0.5}, {"mostly": 0.75}, {"mostly": 1}, {"mostly": 0}])
BOUND = st.integers(-2, 3) | st.sampled_from([-0.5, 0.5, 2.5])
BOUNDS: st.SearchStrategy[dict[str, Any]] = (
    st.tuples(st.none() | BOUND, st.none() | BOUND, st.booleans(), st.booleans())
    .filter(
        lambda given: (
            (given[0] is not None or given[1] is not None)
            and (given[0] is None or given[1] is None or given[0] <= given[1])
        )
    )
    .map(lambda given: dict(zip(("min_value", "max_value", "strict_min", "strict_max"), given, strict=True)))
)


# In SQL, and as plain Python says it of a row: of NULL no comparison holds.
CONDITIONS: dict[str, Any] = {
    f"{column} {sql}": lambda row, column=column, holds=holds: row[column] is not None and holds(row[column])
    for column in NUMBERS
    for sql, holds in {
        "= 1": lambda value: value == 1,
        "<> 1": lambda value: value != 1,
        "IN (-1, 2)": lambda value: value in (-1, 2),
        "NOT IN (0, 1)": lambda value: value not in (0, 1),
        "IS NOT NULL": lambda _: True,
    }.items()
} | {"word IS NULL OR share > 0": lambda row: row["word"] is None or (row["share"] is not None and row["share"] > 0)}
CHOSEN = st.just({}) | st.sampled_from(list(CONDITIONS)).map(lambda text: {"row_condition": text})


@st.composite
def expectations(draw: st.DrawFn) -> list[Expectation]:
    """One of each frequent kind."""

    def of(column: str, *more: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
        return {"column": column} | {key: one for part in (*more, CHOSEN) for key, one in draw(part).items()}

    any_column, number = st.sampled_from(list(SCHEMA)), st.sampled_from(NUMBERS)
    in_set = draw(st.sampled_from([("whole", [1, 2]), ("narrow", [-1, 2**40]), ("word", ["a", ""]), ("word", ["é🙂"])]))
    pair = draw(
        st.sampled_from(
            [("whole", "narrow"), ("share", "whole"), ("word", "word2"), ("day", "day2"), ("share", "share2")]
        )
    )
    columns = draw(st.lists(any_column, min_size=2, max_size=3, unique=True))
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("expect_column_values_to_not_be_null", of(draw(any_column), MOSTLY)),
        ("expect_column_values_to_be_unique", of(draw(any_column), MOSTLY)),
        ("expect_compound_columns_to_be_unique", {"column_list": columns, **draw(MOSTLY)}),
        ("expect_column_values_to_be_between", of(draw(number), BOUNDS, MOSTLY)),
        ("expect_column_values_to_be_in_set", of(in_set[0], MOSTLY) | {"value_set": in_set[1]}),
        ("expect_column_values_to_not_be_in_set", of(in_set[0], MOSTLY) | {"value_set": in_set[1]}),
        ("expect_column_values_to_match_regex", of("word", MOSTLY) | {"regex": draw(st.sampled_from(REGEXES))}),
        (
            "expect_column_pair_values_a_to_be_greater_than_b",
            {"column_A": pair[0], "column_B": pair[1], "or_equal": draw(st.booleans()), **draw(MOSTLY)},
        ),
        *(
            (f"expect_column_{number_of}_to_be_between", of(draw(number), BOUNDS))
            for number_of in ("mean", "min", "max")
        ),
        (
            "expect_table_row_count_to_be_between",
            draw(BOUNDS.filter(lambda one: all(type(bound) is not float for bound in one.values()))),
        ),
    ]
    return [critical(kind, "…", **arguments) for kind, arguments in kinds]


REGEXES = ["^[ab]$", "a", "^.{1}$", r"(?s)^(\{.*\}|'|\\|a)", "🙂|^$", r"\d", "[^a]", "(?:a|b)+", "A"]


def by_gx(expectation: Expectation, table: pl.DataFrame) -> Outcome:
    """What GX says of the rows that plain Python chooses."""
    bare, condition = without_condition(expectation), expectation["kwargs"].get("row_condition")
    if condition:
        table = table.filter(pl.Series([CONDITIONS[condition](row) for row in table.to_dicts()], dtype=pl.Boolean))
    found = Outcome(bare)
    evaluate_by_gx(found, bare, table.lazy(), table.schema)
    return found


def without_condition(expectation: Expectation) -> Expectation:
    kept = {name: one for name, one in expectation["kwargs"].items() if name != "row_condition"}
    return {**expectation, "kwargs": kept}


def numbers_of(found: Outcome) -> dict[str, Any]:
    """Whether it holds, and the numbers that GX gives; of no rows there are none, or NaN, or not all."""
    shown = {key: one for key, one in found.result.items() if key.endswith(("_count", "_value"))}
    if "unexpected_count" not in shown:
        # GX counts no rows where it observes a number of them.
        shown.pop("element_count", None)
    numbers = {key: pytest.approx(one) for key, one in shown.items() if one is not None and not math.isnan(one)}
    return numbers | {"success": found.success, "problem": found.problem}


@examples(100, shrinks=False)
@given(table=TABLES, suite=expectations())
def test_polars_says_what_gx_says_on_pandas(table: pl.DataFrame, suite: list[Expectation]):
    table = table.with_columns(word2=pl.col("word").shift(), day2=pl.col("day").shift(), share2=pl.col("share").shift())
    before = deepcopy(suite)
    ours = validate(table.lazy(), {str(place): one for place, one in enumerate(suite)})
    for found, expectation in zip(ours.values(), suite, strict=True):
        plan = plan_of(without_condition(expectation), table.lazy(), table.schema)
        assert plan is not None, "GX would be compared with itself"
        theirs = by_gx(expectation, table)
        assert numbers_of(found) == numbers_of(theirs), expectation
    assert suite == before


def outcome(table: pl.DataFrame, expectation: Expectation) -> Outcome:
    return validate(table.lazy(), {"check": expectation})["check"]


NOT_A_NUMBER = pl.DataFrame({"share": [0.5, NAN, None, NAN, 3.0], "other": [0.0, 0.0, 0.0, None, NAN]})


def test_nan_is_a_value_that_is_within_no_bounds():
    """GX on pandas takes it as missing; here it is as a number that is out of bounds, of which GX is asked."""
    huge = NOT_A_NUMBER.with_columns(pl.all().replace(NAN, 1e300))
    for expectation in (
        critical.not_null("share", "…"),
        critical.unique("share", "…"),
        critical.unique(["share", "other"], "…"),
        critical.between("share", "…", max_value=1),
        critical.between("share", "…", min_value=0, max_value=1, mostly=0.25),
    ):
        assert numbers_of(outcome(NOT_A_NUMBER, expectation)) == numbers_of(by_gx(expectation, huge)), expectation
    assert outcome(NOT_A_NUMBER, critical.between("share", "…", min_value=0)).result["unexpected_count"] == 2
    assert outcome(NOT_A_NUMBER, critical.greater("share", "other", "…")).result["unexpected_count"] == 4
    for number in ("mean", "min", "max"):
        bounds = {"min_value": -1, "max_value": 1e301}
        assert not outcome(
            NOT_A_NUMBER, critical(f"expect_column_{number}_to_be_between", "…", column="share", **bounds)
        ).success


def test_a_strict_bound_is_outside():
    table = pl.DataFrame({"whole": [1, 2, 3]})
    for strict, number in (({}, 0), ({"strict_min": True}, 1), ({"strict_max": True}, 1)):
        found = outcome(table, critical.between("whole", "…", min_value=1, max_value=3, **strict))
        assert found.result["unexpected_count"] == number


def test_integers_are_compared_exactly_though_one_is_missing():
    table = pl.DataFrame({"id": [2**53, 2**53 + 1, None]})
    assert outcome(table, critical.unique("id", "…")).success
    assert outcome(table, critical.between("id", "…", max_value=2**53)).result["unexpected_count"] == 1


def test_a_condition_chooses_the_rows_of_any_expectation():
    table = pl.DataFrame({"fare": [1.0, -1.0, 5.0, None], "tip": [1, None, 2, 1]})
    by_polars = outcome(table, critical.between("fare", "…", max_value=2, row_condition="tip <> 1"))
    gx = critical("expect_column_median_to_be_between", "…", column="fare", max_value=9, row_condition="tip <> 1")
    assert (by_polars.result["element_count"], by_polars.result["unexpected_count"]) == (1, 1)
    assert outcome(table, gx).result == {"observed_value": 5.0, "element_count": 1}


@pytest.mark.parametrize("keys_at_once", [1, 3])
@examples(100)
@given(table=TABLES)
def test_rows_with_the_same_key_are_found_in_however_many_passes(keys_at_once: int, table: pl.DataFrame):
    table = table.with_columns(share=pl.when("yes").then(NAN).otherwise("share"))
    suite = {name: critical.unique(name, "…") for name in SCHEMA} | {"all": critical.unique(["share", "word"], "…")}
    at_once = validate(table.lazy(), suite)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(validation, "KEYS_AT_ONCE", keys_at_once)
        in_passes = validate(table.lazy(), suite)
    assert [numbers_of(one) for one in in_passes.values()] == [numbers_of(one) for one in at_once.values()]
    assert [bool(one.result.get(EXAMPLES)) for one in in_passes.values()] == [
        not one.success for one in at_once.values()
    ]


def test_a_pass_over_keys_compares_no_more_than_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch):
    passes, collect = [], pl.LazyFrame.collect
    monkeypatch.setattr(validation, "KEYS_AT_ONCE", 3)
    monkeypatch.setattr(pl.LazyFrame, "collect", lambda frame, **how: passes.append(frame) or collect(frame, **how))
    assert outcome(pl.DataFrame({"id": range(10)}), critical.unique("id", "…")).success
    assert len(passes) == 4


def test_no_more_than_counts_and_a_few_examples_is_ever_collected(monkeypatch: pytest.MonkeyPatch):
    heights = []

    def noted(collect: Any) -> Any:
        def noting(*given: Any, **options: Any) -> Any:
            found = collect(*given, **options)
            heights.extend(one.height for one in (found if isinstance(found, list) else [found]))
            return found

        return noting

    monkeypatch.setattr(pl.LazyFrame, "collect", noted(pl.LazyFrame.collect))
    monkeypatch.setattr(pl, "collect_all", noted(pl.collect_all))
    # Each id twice: there are many keys that two rows have.
    rows = pl.LazyFrame({"id": [*range(2500)] * 2, "fare": [-1.0] * 5000, "word": ["x"] * 5000})
    windows = "SELECT * FROM (SELECT *, lag(id) OVER (ORDER BY fare) AS b FROM {batch}) WHERE b IS NOT NULL"
    suite = {
        "between": critical.between("fare", "…", min_value=0),
        "unique": critical.unique("id", "…"),
        "pair": critical.greater("fare", "id", "…"),
        "never": critical.never("fare < 0", "…"),
        "no_rows": critical.no_rows(windows, "…"),
        "some": critical.matches("word", "^a", "…", row_condition="fare < 0"),
        "schema": critical("expect_table_columns_to_match_set", "…", column_set=["id"]),
    }
    assert not any(one.success for one in validate(rows, suite).values())
    assert max(heights) == 10


LEFT_TO_GX = {
    "text in a set of numbers": (critical.in_set("word", [1], "…"), False),
    "numbers in a set of text": (critical.in_set("whole", ["1"], "…"), False),
    "regex that Rust lacks": (critical.matches("word", "^(?=a)", "…"), True),
    "median": (critical("expect_column_median_to_be_between", "…", column="whole", min_value=9), False),
    "lengths": (critical("expect_column_value_lengths_to_equal", "…", column="word", value=1), True),
    "columns": (critical("expect_table_columns_to_match_set", "…", column_set=["whole", "word", "small", "day"]), True),
    "lost column": (critical("expect_column_to_exist", "…", column="lost"), False),
    "days in a set of text": (critical.in_set("day", ["2026-01-01"], "…"), True),
}
BY_POLARS = {
    "float32": (critical.between("small", "…", max_value=1), True),
    "pair of kinds": (critical.at_least("whole", "small", "…"), True),
    "bounds of text": (critical.between("word", "…", min_value="a", max_value="b"), True),
}


def test_what_polars_refuses_is_left_to_gx_and_all_outcomes_come_in_the_order_of_the_suite(monkeypatch):
    table = pl.DataFrame(
        {"whole": [1, 1], "word": ["a", "a"], "small": [1.0, 0.5], "day": [date(2026, 1, 1)] * 2},
        schema_overrides={"small": pl.Float32},
    )
    by_number = critical.between("day", "…", min_value=1)
    assert plan_of(by_number, table.lazy(), table.schema) is None
    asked = []
    monkeypatch.setattr(
        validation, "evaluate_by_gx", lambda *given: asked.append(given[0].expectation) or evaluate_by_gx(*given)
    )
    cases = {**BY_POLARS, **LEFT_TO_GX}
    found = validate(table.lazy(), {name: one for name, (one, _) in cases.items()})
    assert [(check, one.success) for check, one in found.items()] == [
        (name, success) for name, (_, success) in cases.items()
    ]
    assert [check for check, one in found.items() if one.problem] == []
    assert asked == [one for one, _ in LEFT_TO_GX.values()]


def test_an_expectation_that_a_user_derived_is_evaluated_by_gx():
    import great_expectations.expectations as gxe  # noqa: PLC0415 - takes seconds

    class ExpectOurs(gxe.ExpectColumnValuesToNotBeNull):
        pass

    assert ExpectOurs.__name__ == "ExpectOurs"
    assert (
        outcome(pl.DataFrame({"id": [None, 1]}), critical("expect_ours", "…", column="id")).result["unexpected_count"]
        == 1
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('FILE')",
        "SELECT * FROM {batch} WHERE id IN (SELECT id FROM READ_CSV ('FILE'))",
        "SELECT * FROM \"read_csv\"('FILE')",
        "SELECT * FROM `read_csv`('FILE')",
        "SELECT * FROM {batch} WHERE word <> '--' AND id IN (SELECT id FROM read_csv/*x*/('FILE'))",
        "SELECT * FROM {batch} WHERE word = 'read_csv' OR id IN (SELECT id FROM read_csv('FILE'))",
        "WITH stolen AS (SELECT * FROM read_csv('FILE')) SELECT * FROM stolen",
        "SELECT * FROM 'FILE'",
        "CREATE TABLE stolen AS SELECT * FROM read_csv('FILE')",
    ],
)
def test_no_query_and_no_condition_reads_a_file(tmp_path, query):
    (tmp_path / "secret.csv").write_text("id\nsecret\n1,2,3\n")
    table = pl.DataFrame({"id": [1], "word": ["a"]})
    text = query.replace("FILE", str(tmp_path / "secret.csv"))
    for expectation in (
        critical.no_rows(text, "…"),
        critical.not_null("id", "…", row_condition=text.split("WHERE ")[-1]),
    ):
        found = outcome(table, expectation)
        assert found.problem
        assert "secret\n" not in found.problem
        assert "ComputeError" not in found.problem
        assert found.result == {}


@pytest.mark.parametrize(
    "call", ["read_csv('FILE')", "\"read_csv\" ('FILE')", "`READ_CSV`('FILE')", "read_csv/*x*/('FILE')"]
)
def test_a_column_of_the_name_of_a_function_lets_no_query_read_files(tmp_path, call):
    file = tmp_path / "secret.csv"
    file.write_text("id\n1\n")
    schema = pl.Schema({"id": pl.Int64, "read_csv": pl.Int64, "READ_CSV": pl.Int64})
    rows = pl.LazyFrame({"id": [1], "read_csv": [2], "READ_CSV": [3]}, schema)
    query = "SELECT * FROM {batch} WHERE id IN (SELECT id FROM " + call.replace("FILE", str(file)) + ")"  # noqa: S608 - the attack that is tested
    with pytest.raises(Refused, match="may not read files"):
        serialised.run_query(query, rows, schema)
    own = serialised.run_query('SELECT * FROM {batch} WHERE read_csv > 1 AND "read_csv" IN (2)', rows, schema)
    assert own.collect().height == 1


@pytest.mark.parametrize(
    "text", ["x" + "+x" * 20_000, "x" + "||x" * 501, "x" + " BETWEEN 1 AND x" * 9, "(" * 501 + "x" + ")" * 501]
)
def test_what_would_overflow_polars_stack_is_a_problem_of_its_check_alone(text):
    """In the process of the tests: it would end here."""
    table = pl.DataFrame({"x": [1]})
    for expectation in (
        critical.no_rows(f"SELECT * FROM {{batch}} WHERE {text}", "…"),  # noqa: S608 - the attack that is tested
        critical.not_null("x", "…", row_condition=text),
    ):
        assert "the query is not evaluated: it has" in (outcome(table, expectation).problem or "")


def test_a_word_like_a_function_that_reads_is_allowed_where_it_is_text_or_a_column():
    table = pl.DataFrame({"read_at": [1, 2], "word": ["read_only", "b"]})
    assert outcome(table, critical.never("word = 'read_only' AND read_at > 0", "…")).result["observed_value"] == 1


def test_a_condition_that_looks_at_other_rows_is_a_query_of_the_whole_table():
    table = pl.DataFrame({"id": [1, 2, 3]})
    for text, number in (
        ("id < (SELECT max(id) FROM {batch})", 2),
        ("id < max(id) OVER ()", 2),
        ("1 = 1", 3),
        ("1 = 0", 0),
    ):
        assert outcome(table, critical.never(text, "…")).result["observed_value"] == number, text


@pytest.mark.parametrize("module", [serialised, validation])
def test_the_examples_in_the_docstrings_are_right(module):
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
