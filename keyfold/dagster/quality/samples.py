"""Add samples of violating rows to a Great Expectations result, and remove masked values from it.

No value of a masked column remains in a result: not in samples, observed values or the engine's error messages.
"""

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql.types import StructType, TimestampType

from keyfold.dagster.quality.outcome import Outcome
from keyfold.dagster.quality.serialised import SerialisedExpectation, arguments_of

SAMPLE = "sample_rows"
"""Key in a result's `result`: up to ten violating rows, as text, masked."""
SAMPLED_ROWS = 10
MASK = "(private)"
"""A constant, not a hash: the hash of a name can be found by hashing all names."""

_LONGEST_CELL = 200
_HARMLESS = re.compile(r"does not exist|\[(UNRESOLVED_COLUMN|PARSE_SYNTAX_ERROR|TABLE_OR_VIEW_NOT_FOUND)")
_NUMBERS_OF_ROWS = re.compile(r"^(element|unexpected|missing)_(count|percent)")
_OF_ITS_OWN_ROWS = re.compile(r"\s*select\s+\*\s+from\s+\{batch\}\s+where\s", re.IGNORECASE)
_NOT_FOR_PEOPLE = (
    "partial_unexpected_index_list",
    "unexpected_index_column_names",
    "unexpected_index_query",
    "details",
)


@contextmanager
def no_values_in_logs() -> Iterator[None]:
    """Keep PySpark from logging query errors, which quote values of rows, even if the error is caught later."""
    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    for logger in loggers:
        logger.addFilter(_drop)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_drop)


def _drop(_: logging.LogRecord) -> bool:
    return False


def is_query(expectation: SerialisedExpectation) -> bool:
    """Whether an expectation is a free query, which may use any column."""
    return "unexpected_rows_query" in arguments_of(expectation)


def columns_of(expectation: SerialisedExpectation) -> list[str]:
    """Return the columns that an expectation names, in its order; a query names none."""
    found: list[str] = []
    for key in ("column", "column_A", "column_B", "column_list"):
        value = arguments_of(expectation).get(key)
        found += [value] if isinstance(value, str) else list(value or ())
    return found


@dataclass(frozen=True)
class Sampling:
    """How sample rows of a table are shown.

    Attributes:
        schema: the table's schema.
        masked: columns whose values must not appear.
    """

    schema: StructType
    masked: Collection[str] = field(default=())

    def show(self, outcome: Outcome, rows: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Put sample rows into an outcome, and remove everything that may contain masked values.

        Args:
            outcome: the engine's outcome; it is changed in place.
            rows: the violating rows; default: those in the result.
        """
        expectation = outcome.expectation
        found = rows if rows is not None else _rows_of(outcome.result)
        for key in _NOT_FOR_PEOPLE:
            outcome.result.pop(key, None)
        if self._touches_masked(expectation):
            observed = {key: value for key, value in outcome.result.items() if key == "observed_value"}
            outcome.result = {
                **{key: value for key, value in outcome.result.items() if _NUMBERS_OF_ROWS.match(key)},
                # The observed value of a query is its number of rows.
                **(observed if is_query(expectation) else {}),
            }
            outcome.problem = _without_values(outcome.problem)
        if found and not outcome.problem:
            outcome.result[SAMPLE] = self._as_text(found, expectation)

    def _touches_masked(self, expectation: SerialisedExpectation) -> bool:
        return (bool(self.masked) and is_query(expectation)) or self._names_masked(expectation)

    def _names_masked(self, expectation: SerialisedExpectation) -> bool:
        about = " ".join(str(value) for value in arguments_of(expectation).values())
        return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", about, re.IGNORECASE) for name in self.masked)

    def _may_rename_masked(self, expectation: SerialisedExpectation) -> bool:
        """Whether a query may return a masked column under another name."""
        query = str(arguments_of(expectation).get("unexpected_rows_query", ""))
        return is_query(expectation) and self._names_masked(expectation) and not _OF_ITS_OWN_ROWS.match(query)

    def _as_text(self, rows: Sequence[Mapping[str, Any]], expectation: SerialisedExpectation) -> list[dict[str, str]]:
        """Convert rows to text, with the expectation's columns first."""
        order = list(dict.fromkeys([*(name for name in columns_of(expectation) if name in rows[0]), *rows[0]]))
        # A column computed by a query may contain a masked column under another name.
        shown = set() if self._may_rename_masked(expectation) else set(self.schema.fieldNames()) - set(self.masked)
        hidden = set(order) - shown if self.masked else set()
        instants = {one.name for one in self.schema.fields if isinstance(one.dataType, TimestampType)}
        return [
            {name: MASK if name in hidden else _cell(row.get(name), name in instants) for name in order}
            for row in rows[:SAMPLED_ROWS]
        ]


def _rows_of(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    details = found.get("details")
    if isinstance(details, dict) and "unexpected_rows" in details:
        return details["unexpected_rows"]
    return [row for row in found.get("partial_unexpected_index_list") or [] if isinstance(row, dict)]


def _cell(value: Any, instant: bool) -> str:
    if value is None:
        return "null"
    if isinstance(value, datetime):
        # Spark returns timestamps without a zone, in the zone of the process.
        text = (value.astimezone(UTC) if instant else value).isoformat(sep=" ")
    else:
        text = str(value)
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"


def _without_values(message: str | None) -> str | None:
    if message is None or _HARMLESS.search(message):
        return message
    error_class = re.search(r"\[[A-Z_.]+\]", message)
    return f"{error_class[0] if error_class else 'an error'} (hidden: it may contain values of masked columns)"
