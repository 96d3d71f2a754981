"""Bound SQL texts before Polars gets them: it recurses into expressions, and what is nested too deeply overflows its stack.

A chain of operators is nested too: `x + x + x` is a sum within a sum. Lists are not, however long they are: `x IN (1, 2, 3)`.
"""

import re

LONGEST = 100_000
"""Most characters of a text."""

DEEPEST = 500
"""Most words and signs that are one within the other. From 1,600 on, Polars ends the process."""

MOST_DOUBLED = 8
"""Most `BETWEEN` that are one within the other: Polars takes its value twice, so each doubles the work. So does a `CASE` of a
`CASE`."""

_TOKEN = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|[\w.]+|[^\s\w]""")


def excess_of(text: str) -> str:
    """Say why a text is not given to Polars; empty if it is within the bounds.

    Example:
        >>> excess_of("x IN (1, 2, 3) AND y > 0"), excess_of("x" + "+x" * 20_000)
        ('', 'it has more than 500 words and signs one within the other; a list, as in x IN (1, 2, 3), may be longer')
    """
    if len(text) > LONGEST:
        return f"it has {len(text):,} characters, and at most {LONGEST:,} are read"
    levels, doubled = [_Level()], 0
    for token in _TOKEN.finditer(text):
        level, word = levels[-1], token[0].upper()
        if word in ("(", "["):
            levels.append(_Level(level.depth + 1, level.depth + 1, cases=level.cases if level.is_case else 0))
        elif word in (")", "]") and len(levels) > 1:
            levels.pop()
            # What is in brackets may be the value of the next BETWEEN.
            levels[-1].betweens += level.betweens
        else:
            level.take(word)
        level = levels[-1]
        doubled = max(doubled, level.betweens, level.cases)
        if level.depth > DEEPEST or len(levels) > DEEPEST:
            return f"it has more than {DEEPEST} words and signs one within the other; a list, as in x IN (1, 2, 3), may be longer"
    return f"it has more than {MOST_DOUBLED} BETWEEN or CASE one within the other" if doubled > MOST_DOUBLED else ""


class _Level:
    """What is known of the text in one pair of brackets, since its last comma."""

    def __init__(self, begin: int = 0, depth: int = 0, cases: int = 0) -> None:
        self.begin, self.depth = begin, depth
        self.betweens = self.ands = 0
        self.cases, self.is_case = cases, bool(cases)

    def take(self, word: str) -> None:
        """Take the next word or sign."""
        self.depth += 1
        self.is_case = word == "CASE"
        self.cases = self.cases + 1 if self.is_case else 0
        if word == ",":
            self.depth = self.begin
        if word == "BETWEEN":
            self.betweens, self.ands = self.betweens + 1, self.ands + 1
        # The AND of a BETWEEN is part of it; what begins after another one is a value of its own.
        elif word == "AND" and self.ands:
            self.ands -= 1
        elif word in ("AND", "OR", ","):
            self.betweens = 0
