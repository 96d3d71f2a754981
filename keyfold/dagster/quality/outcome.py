"""Hold outcomes of expectations in Great Expectations' terms, and hide what may be values of masked columns."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keyfold.dagster.quality.serialised import SerialisedExpectation, arguments_of, columns_of, condition_in

EXAMPLES = "examples"
"""Key in an outcome's `result`: up to ten violating rows, as text, masked."""
MOST_EXAMPLES = 10
MASK = "(private)"
"""A constant, not a hash: the hash of a name can be found by hashing all names."""

_LONGEST_CELL = 200
_NUMBERS_OF_ROWS = re.compile(r"^(element|unexpected|missing)_(count|percent)")


@dataclass
class Outcome:
    """The outcome of an expectation.

    Attributes:
        check: the name of its check.
        expectation: the expectation.
        success: whether it holds.
        result: counts, observed values and examples, with the names of GX's results.
        problem: why it could not be evaluated; None if it was.
    """

    check: str
    expectation: SerialisedExpectation
    success: bool
    result: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None

    @property
    def is_good(self) -> bool:
        """Whether it was evaluated and holds."""
        return self.success and not self.problem


@dataclass
class Validation:
    """The outcomes of a suite, or of a part of it.

    Attributes:
        suite: the name of the suite.
        outcomes: one for each expectation, in the suite's order.
        scope: which rows it saw, for people.
    """

    suite: str
    outcomes: Sequence[Outcome]
    scope: str = "full"


@dataclass(frozen=True)
class Masking:
    """How rows of a table are shown.

    Attributes:
        columns: the table's columns.
        masked: those whose values must not appear.
    """

    columns: Collection[str]
    masked: Collection[str]

    def hide(self, outcome: Outcome, examples: Sequence[Mapping[str, Any]], *, problem_quotes_rows: bool) -> None:
        """Put examples into an outcome, and remove everything that may be a masked value.

        Args:
            outcome: the engine's outcome; it is changed in place.
            examples: violating rows.
            problem_quotes_rows: whether the problem came up while rows were read.
        """
        query = arguments_of(outcome.expectation).get("unexpected_rows_query")
        names_masked = self._names_masked(outcome.expectation)
        if names_masked or (self.masked and query is not None):
            # The observed value of a query is its number of rows.
            shown = ("observed_value",) if query is not None else ()
            kept = {key: one for key, one in outcome.result.items() if key in shown or _NUMBERS_OF_ROWS.match(key)}
            outcome.result = kept
            if outcome.problem and problem_quotes_rows:
                kind = outcome.problem.split(":", maxsplit=1)[0]
                outcome.problem = f"{kind} (hidden: it may contain values of masked columns)"
        if examples and not outcome.problem:
            # A query that names a masked column may return it under any name.
            renames = query is not None and names_masked and condition_in(query) is None
            visible = set() if renames else set(self.columns) - set(self.masked)
            outcome.result[EXAMPLES] = self._as_text(examples, columns_of(outcome.expectation), visible)

    def _names_masked(self, expectation: SerialisedExpectation) -> bool:
        about = str(arguments_of(expectation))
        return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", about, re.IGNORECASE) for name in self.masked)

    def _as_text(
        self, rows: Sequence[Mapping[str, Any]], first: Sequence[str], visible: Collection[str]
    ) -> list[dict[str, str]]:
        """Convert rows to text, with the expectation's columns first."""
        order = list(dict.fromkeys([*(name for name in first if name in rows[0]), *rows[0]]))
        hidden = set(order) - set(visible) if self.masked else set()
        return [{name: MASK if name in hidden else _cell(row[name]) for name in order} for row in rows[:MOST_EXAMPLES]]


def _cell(value: Any) -> str:
    text = "null" if value is None else value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"
