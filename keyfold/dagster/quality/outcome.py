"""Hold outcomes of expectations in Great Expectations' terms, and hide what may be values of masked columns."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keyfold.dagster.quality.serialised import SerialisedExpectation, arguments_of, columns_of

EXAMPLES = "examples"
"""Key in an outcome's `result`: up to ten violating rows, as text, masked."""
MOST_EXAMPLES = 10
MASK = "(private)"
"""A constant, not a hash: the hash of a name can be found by hashing all names."""

_LONGEST_CELL = 200
_NUMBERS_OF_ROWS = ("element_count", "unexpected_count", "missing_count")


@dataclass
class Outcome:
    """The outcome of an expectation.

    Attributes:
        expectation: the expectation.
        success: whether it holds.
        result: counts, observed values and examples, with the names of GX's results.
        problem: why it could not be evaluated; None if it was.
    """

    expectation: SerialisedExpectation
    success: bool = False
    result: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None

    @property
    def is_good(self) -> bool:
        """Whether it was evaluated and holds."""
        return self.success and not self.problem


def hide(
    outcome: Outcome, examples: Sequence[Mapping[str, Any]], columns: Collection[str], masked: Collection[str]
) -> None:
    """Put examples into an outcome, and remove everything that may be a masked value.

    Args:
        outcome: the engine's outcome; it is changed in place.
        examples: violating rows.
        columns: the table's columns.
        masked: those whose values must not appear.
    """
    about = str(arguments_of(outcome.expectation))
    names_masked = any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", about, re.IGNORECASE) for name in masked)
    is_query = "unexpected_rows_query" in arguments_of(outcome.expectation)
    if names_masked or (masked and is_query):
        # The observed value of a query is its number of rows.
        shown = (*_NUMBERS_OF_ROWS, "observed_value") if is_query else _NUMBERS_OF_ROWS
        outcome.result = {key: value for key, value in outcome.result.items() if key in shown}
        if outcome.problem:
            kind = outcome.problem.split(":", maxsplit=1)[0]
            outcome.problem = f"{kind} (hidden: it may contain values of masked columns)"
    # A query that names a masked column may return it under any name.
    if not examples or outcome.problem or (names_masked and is_query):
        return
    visible = set(columns) - set(masked)
    first = [name for name in columns_of(outcome.expectation) if name in examples[0]]
    outcome.result[EXAMPLES] = [
        {name: _cell(row[name]) if not masked or name in visible else MASK for name in dict.fromkeys([*first, *row])}
        for row in examples[:MOST_EXAMPLES]
    ]


def _cell(value: Any) -> str:
    text = "null" if value is None else value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"
