"""What a Great Expectations result shows of the data: up to ten of the rows that are not so, without masked columns.

Of a masked column no value leaves here: not in samples, not in observed values, not in what an engine says of an error.
"""

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.logger import PySparkLogger
from pyspark.sql.types import StructType, TimestampType

if TYPE_CHECKING:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations import Expectation

SAMPLE = "sample_rows"
"""Key in a result's `result`: up to ten rows that are not so, as text, masked."""
SAMPLED_ROWS = 10
MASK = "(private)"
"""Nothing of the value, not even whether two are the same: a hash of a name can be looked up by hashing names."""

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


def failure_reason(result: "ExpectationValidationResult") -> str | None:
    """Why an expectation could not be evaluated; None where it was."""
    info: Mapping[str, Any] = result.exception_info or {}
    # Where a metric failed GX nests a record a metric, else it gives one flat.
    records = [info] if "raised_exception" in info else list(info.values())
    messages = [str(record.get("exception_message")) for record in records if record.get("raised_exception")]
    return "; ".join(dict.fromkeys(messages)) or None


@contextmanager
def no_values_in_logs() -> Iterator[None]:
    """Keep PySpark from logging errors of queries meanwhile, before anybody has caught them: they quote values of rows."""
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


def is_query(expectation: "Expectation") -> bool:
    """Whether an expectation is a query of its own, which may be about anything."""
    return hasattr(expectation, "unexpected_rows_query")


def columns_of(expectation: "Expectation") -> list[str]:
    """The columns that an expectation is about, in its order; of a query none."""
    found: list[str] = []
    for key in ("column", "column_A", "column_B", "column_list"):
        value = getattr(expectation, key, None)
        found += [value] if isinstance(value, str) else list(value or ())
    return found


@dataclass(frozen=True)
class Sampling:
    """How rows of a table are shown.

    Attributes:
        schema: of the table.
        masked: columns whose values must not show.
    """

    schema: StructType
    masked: Collection[str] = field(default=())

    def show(
        self,
        result: "ExpectationValidationResult",
        expectation: "Expectation",
        rows: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Put sample rows into a result, and take out of it all else that may show masked values.

        Args:
            result: as the engine gave it; it is changed.
            expectation: what it is the result of.
            rows: that are not so; by default those that the engine gave.
        """
        found = rows if rows is not None else _rows_of(result.result)
        message = failure_reason(result)
        for key in _NOT_FOR_PEOPLE:
            result.result.pop(key, None)
        if is_query(expectation):
            result.result.pop("details", None)
        if self._touches_masked(expectation):
            observed = {key: value for key, value in result.result.items() if key == "observed_value"}
            result.result = {
                **{key: value for key, value in result.result.items() if _NUMBERS_OF_ROWS.match(key)},
                # Of a query it is the number of rows.
                **(observed if is_query(expectation) else {}),
            }
            message = _without_values(message)
        if found and not message:
            result.result[SAMPLE] = self._as_text(found, expectation)
        result.exception_info = {
            "raised_exception": message is not None,
            "exception_message": message,
            # A traceback repeats the message, values and all.
            "exception_traceback": "",
        }

    def _touches_masked(self, expectation: "Expectation") -> bool:
        return (bool(self.masked) and is_query(expectation)) or self._names_masked(expectation)

    def _names_masked(self, expectation: "Expectation") -> bool:
        about = " ".join(str(value) for value in expectation.configuration.kwargs.values())
        return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", about, re.IGNORECASE) for name in self.masked)

    def _may_rename_masked(self, expectation: "Expectation") -> bool:
        """Whether what a query calls by another column's name may be a masked one."""
        query = str(getattr(expectation, "unexpected_rows_query", ""))
        return is_query(expectation) and self._names_masked(expectation) and not _OF_ITS_OWN_ROWS.match(query)

    def _as_text(self, rows: Sequence[Mapping[str, Any]], expectation: "Expectation") -> list[dict[str, str]]:
        """Rows with the columns that it is about in front."""
        order = list(dict.fromkeys([*(name for name in columns_of(expectation) if name in rows[0]), *rows[0]]))
        # A column that a query made may hold a masked one by another name.
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
        # Spark gives instants without a zone, in that of the process.
        text = (value.astimezone(UTC) if instant else value).isoformat(sep=" ")
    else:
        text = str(value)
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"


def _without_values(message: str | None) -> str | None:
    if message is None or _HARMLESS.search(message):
        return message
    error_class = re.search(r"\[[A-Z_.]+\]", message)
    return f"{error_class[0] if error_class else 'an error'} (hidden: it may show values of masked columns)"
