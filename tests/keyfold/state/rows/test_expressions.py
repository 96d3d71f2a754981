"""An expression that an operator writes opens no file, and says nothing of its content; quoted names are columns."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import InvalidData
from keyfold.state.rows.expressions import sql_expression

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
