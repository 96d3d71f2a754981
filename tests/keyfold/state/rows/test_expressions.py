"""An expression that an operator writes opens no file, and says nothing of its content; quoted names are columns."""

import subprocess
import sys

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import InvalidData
from keyfold.sql_bounds import excess_of
from keyfold.state.rows.sql_expressions import sql_expression

PLANTED = "planted-content"
HOSTILE = [
    "x IN (SELECT z FROM read_csv('FILE'))",
    "x in (select z\nfrom\tread_csv('FILE'))",
    "x IN (/* of it */ sElEcT z FrOm read_csv('FILE'))",
    "x IN (-- of it\nSELECT z FROM read_csv('FILE'))",
    "x IN (((SELECT z FROM (SELECT * FROM read_csv('FILE')))))",
    "x IN (FROM read_csv('FILE'))",
    "x IN (WITH a AS (SELECT z FROM read_csv('FILE')) SELECT z FROM a)",
    "x = ANY(SELECT z FROM read_csv('FILE'))",
    "(SELECT MAX(z) FROM read_csv('FILE'))",
    "EXISTS(SELECT z FROM read_csv('FILE'))",
    "CASE WHEN x = 'select' THEN 1 ELSE (SELECT z FROM read_csv('FILE')) END",
    "E'\\'' || (SELECT z FROM read_csv('FILE')) || ''",
    "$$'$$ || (SELECT z FROM read_csv('FILE')) || $$'$$",
    "'a''' || (SELECT z FROM read_csv('FILE'))",
    '"x" || (SELECT DISTINCT z FROM read_csv(\'FILE\')) || "x"',
    "read_csv('FILE')",
    "x IN (READ_PARQUET ('FILE'))",
    "x IN (TABLE read_ndjson('FILE'))",
    "x; SELECT 1",
    "'not closed",
    'x = "not closed',
]
ROW = pl.DataFrame(
    {"x": ["a"], "select": [3], 'say "from"': [4], "read_csv": [5], "selected": [6], "at": ["2026-01-05"]}
)
ALLOWED = [
    ('"select" + 1', 4),
    ("`select` + 1", 4),
    ('"say ""from""" + 1', 5),
    ("read_csv + 1", 6),
    ("selected + 1", 7),
    ("x || ' -- select z from read_csv(1); $'", "a -- select z from read_csv(1); $"),
    ("x || ' it''s from /* here */'", "a it's from /* here */"),
    ("x IS DISTINCT FROM 'b'", True),
    ("x IS NOT DISTINCT FROM 'b'", False),
    ("date_part('month', STRPTIME(at, '%Y-%m-%d') + INTERVAL '1 hour')", 1),
    ("CASE WHEN (x IN ('select', 'a')) THEN ((1)) ELSE -1 END", 1),
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "z.csv"
    path.write_text(f"z\n{PLANTED}\n")
    return path


@pytest.mark.parametrize("text", HOSTILE)
def test_an_expression_that_might_read_a_file_is_refused_before_it_is_opened(file, text, monkeypatch):
    def parse(text: str) -> pl.Expr:
        raise AssertionError(f"Polars was given {text}")

    monkeypatch.setattr(pl, "sql_expr", parse)
    text = text.replace("FILE", str(file))
    with pytest.raises(InvalidData) as refused:
        sql_expression("--set x", text)
    assert str(refused.value).startswith(f"--set x={text}: ")
    assert " is not allowed; write an expression over the columns of one row" in str(refused.value)
    assert PLANTED not in str(refused.value)


@pytest.mark.parametrize(("text", "value"), ALLOWED)
def test_words_of_queries_are_allowed_in_texts_and_in_quoted_names(text, value):
    assert ROW.select(sql_expression("--set x", text).alias("given")).item() == value


QUERY = "(SELECT z FROM read_csv('/no/such/file'))"
PIECES = st.sampled_from([
    *("SELECT", "from", "z", "x", "1", "(", ")", "'", "''", '"', "`", "E'", "U&'", "\\", "$$", "$a$", "--", "/*", "*/"),
    *("\n", " ", " ", ",", "||", "IN", "DISTINCT", "UNION", QUERY),
])  # fmt: skip


@given(st.lists(PIECES, max_size=14).map("".join), st.lists(PIECES, max_size=8).map("".join))
def test_no_accepted_text_has_a_query_for_polars(before, after):
    found = ""
    try:
        found = str(sql_expression("--set x", before + QUERY + after))
    except (InvalidData, pl.exceptions.PolarsError) as error:
        # What Polars says of a file that it opens.
        assert "No such file" not in str(error)  # noqa: PT017 - most texts are refused by one or the other
    # Polars gives the result of a query a name of its own.
    assert "subplan" not in found.lower()
    assert "POLARS_TMP" not in found


NESTED = {
    "a sum": lambda count: "x" + "+x" * count,
    "a joined text": lambda count: "x" + "||x" * count,
    "NULL asked again": lambda count: "x" + " IS NULL" * count,
    "a cast": lambda count: "x" + "::int" * count,
    "alternatives": lambda count: "x" + " OR x" * count,
    "negations": lambda count: "NOT " * count + "x",
    "brackets": lambda count: "(" * count + "x" + ")" * count,
    "square brackets": lambda count: "x IN " + "[" * count + "1" + "]" * count,
    "calls": lambda count: "coalesce(1, " * count + "x" + ")" * count,
    "a between of a between": lambda count: "x" + " BETWEEN 1 AND x" * count,
    "a between in brackets": lambda count: "(" * count + "x" + " BETWEEN 1 AND 2)" * count,
    "a case of a case": lambda count: "CASE " * count + "x" + " WHEN 1 THEN 1 END" * count,
    "a case in brackets": lambda count: "CASE (" * count + "x" + ") WHEN 1 THEN 1 END" * count,
}


@pytest.mark.parametrize("count", [501, 20_000])
@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
def test_what_would_overflow_polars_stack_is_refused(nested, count):
    with pytest.raises(InvalidData, match=r"one within the other|characters, and at most"):
        sql_expression("--set a", nested(count))


@pytest.mark.parametrize("name", [name for name in NESTED if name.startswith(("a between", "a case"))])
def test_what_doubles_the_work_is_refused_from_the_ninth_on(name):
    sql_expression("--set a", NESTED[name](8))
    with pytest.raises(InvalidData, match="more than 8 BETWEEN or CASE one within the other"):
        sql_expression("--set a", NESTED[name](9))


@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
def test_what_is_not_refused_is_parsed_in_a_moment(nested):
    """The deepest that is allowed, in a process of its own: its end would be that of the tests."""
    code = (
        "import sys, polars as pl; from keyfold.state.rows.sql_expressions import sql_expression\n"
        "for text in sys.stdin.read().splitlines():\n"
        "    try: pl.LazyFrame({'x': [1]}).select(sql_expression('--set a', text)).collect(engine='streaming')\n"
        "    except pl.exceptions.PolarsError: pass"
    )
    allowed = [text for count in range(1, 501) if not excess_of(text := nested(count))]
    assert allowed
    text = "\n".join([*allowed[:8], allowed[-1]])
    subprocess.run([sys.executable, "-c", code], input=text, text=True, check=True, timeout=60)


def test_long_lists_and_many_conditions_are_allowed():
    wanted = ", ".join(f"'{number}'" for number in range(9_000))
    frame = pl.DataFrame({"x": ["7", "a"]}).select(sql_expression("--set a", f"x IN ({wanted})"))
    assert frame["x"].to_list() == [True, False]
    assert not excess_of(" AND ".join("x BETWEEN 1 AND 2" for _ in range(60)))
    assert not excess_of(", ".join(f"coalesce(x + {number}, 0)" for number in range(3_000)))
