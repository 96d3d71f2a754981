r"""Make a Polars expression of an operator's SQL text, which reads the columns of its row and nothing else.

Polars runs a subquery while it parses: `x IN (SELECT z FROM read_csv('/etc/passwd'))` opens that file, and an error may quote it.
So a text is refused before Polars gets it. Nothing that Polars takes for a word may pass as quoted here. Hence no comments, no
`$` quotes, and no letter before a quote: in `E'\''`, the second quote does not end the text.
"""

import re

import polars as pl

from keyfold.errors import InvalidData
from keyfold.sql_bounds import excess_of

_WORDS = re.compile(
    r"""(?P<allowed>(?<![\w&])'[^']*' | "[^"]*" | `[^`]*` | \bdistinct\s+from\b)
    | (?P<refused>\b(?:select|from)\b | \b(?:read|scan)_\w*(?=\s*\() | -- | /\* | [\w&]' | ['"`$#;])""",
    re.IGNORECASE | re.VERBOSE,
)

_SHOWN = 40
"""Characters of a text that are shown where it is too long."""


def sql_expression(subject: str, text: str) -> pl.Expr:
    """Return the expression that a SQL text gives over the columns of a row.

    Args:
        subject: names the text in errors, such as `--set clicks`.
        text: the expression. Write a column whose name is a word of SQL in double quotes.

    Raises:
        InvalidData: the text has a query, a function that reads files, a comment, or a quote of another kind; or it is too long
            or nested too deeply (`sql_bounds`).
        pl.exceptions.PolarsError: it is no expression.

    Example:
        >>> pl.DataFrame({"clicks": [2]}).select(sql_expression("--set clicks", "clicks * 2")).item()
        4
    """
    if excess := excess_of(text):
        raise InvalidData(f"{subject}={text[:_SHOWN]}…: {excess}")
    for word in _WORDS.finditer(text):
        if word["refused"]:
            raise InvalidData(
                f"{subject}={text}: {word[0]} is not allowed; write an expression over the columns of one row, without queries, "
                "functions that read files, comments, $ and semicolons; a text is in single quotes, a column of such a name in "
                """double quotes, and EXTRACT(hour FROM "time") is date_part('hour', "time")"""
            )
    return pl.sql_expr(text)
