"""Declare expectations as plain values, in the form of Great Expectations' (GX) JSON.

`critical`, `warning` and `info` make them: `critical.not_null("ride_id", "Every row names its ride.")`. Their fields are those
of GX, so its documentation applies, and
`great_expectations.ExpectationSuite(name, expectations=[*EXPECTATIONS.values()])` is the suite in GX. This module does not
import GX, which takes seconds: the names of a table's checks are needed without it.
"""

from typing import Any, Literal, NotRequired, TypedDict


class Expectation(TypedDict):
    """An expectation.

    Attributes:
        type: GX's name of the expectation.
        kwargs: its columns and bounds, and `row_condition` if it applies to some rows only.
        severity: `critical` blocks assets downstream of the table; `warning` and `info` block nothing.
        description: shown to people.
        meta: further values, which GX stores.
        notes: Markdown that is shown with the expectation in Data Docs.
    """

    type: str
    kwargs: dict[str, Any]
    severity: Literal["critical", "warning", "info"]
    description: str
    meta: NotRequired[dict[str, Any]]
    notes: NotRequired[str | list[str]]


Suite = dict[str, Expectation]
"""Expectations by the names of their checks."""


class Severity:
    """Make expectations of one severity: any of GX by its name, and the usual ones by methods that name their columns.

    Example:
        >>> fare = warning.between("fare", "Meters run forward.", min_value=0)
        >>> fare == warning("expect_column_values_to_be_between", "Meters run forward.", column="fare", min_value=0)
        True
    """

    def __init__(self, severity: Literal["critical", "warning", "info"]) -> None:
        self._severity: Literal["critical", "warning", "info"] = severity

    def __call__(self, kind: str, description: str, /, **kwargs: Any) -> Expectation:
        """Make any expectation, by its name in GX and with its arguments."""
        return {"type": kind, "kwargs": kwargs, "severity": self._severity, "description": description}

    def not_null(self, column: str, description: str, **kwargs: Any) -> Expectation:
        """Expect a value in every row."""
        return self("expect_column_values_to_not_be_null", description, column=column, **kwargs)

    def unique(self, columns: str | list[str], description: str, **kwargs: Any) -> Expectation:
        """Expect no two rows with the same value, or the same values of several columns."""
        if isinstance(columns, str):
            return self("expect_column_values_to_be_unique", description, column=columns, **kwargs)
        return self("expect_compound_columns_to_be_unique", description, column_list=columns, **kwargs)

    def between(self, column: str, description: str, **bounds: Any) -> Expectation:
        """Expect values between `min_value` and `max_value`, or on one side of either."""
        return self("expect_column_values_to_be_between", description, column=column, **bounds)

    def mean_between(self, column: str, description: str, **bounds: Any) -> Expectation:
        """Expect the mean of all rows between `min_value` and `max_value`."""
        return self("expect_column_mean_to_be_between", description, column=column, **bounds)

    def in_set(self, column: str, values: list[Any], description: str, **kwargs: Any) -> Expectation:
        """Expect values of a list."""
        return self("expect_column_values_to_be_in_set", description, column=column, value_set=values, **kwargs)

    def matches(self, column: str, regex: str, description: str, **kwargs: Any) -> Expectation:
        """Expect text that matches a regular expression."""
        return self("expect_column_values_to_match_regex", description, column=column, regex=regex, **kwargs)

    def greater(self, greater: str, less: str, description: str, **kwargs: Any) -> Expectation:
        """Expect one column to be greater than another in each row."""
        kind = "expect_column_pair_values_a_to_be_greater_than_b"
        return self(kind, description, column_A=greater, column_B=less, **kwargs)

    def at_least(self, greater: str, less: str, description: str, **kwargs: Any) -> Expectation:
        """Expect one column to be as great as another, or greater, in each row."""
        return self.greater(greater, less, description, or_equal=True, **kwargs)

    def never(self, condition: str, description: str, **kwargs: Any) -> Expectation:
        """Expect no row for which a condition in Polars' SQL holds."""
        return self.no_rows(f"SELECT * FROM {{batch}} WHERE {condition}", description, **kwargs)  # noqa: S608 - a suite's own

    def no_rows(self, query: str, description: str, **kwargs: Any) -> Expectation:
        """Expect no row from a query in Polars' SQL over the table `{batch}`."""
        return self("unexpected_rows_expectation", description, unexpected_rows_query=query, **kwargs)


critical = Severity("critical")
"""Expectations that block assets downstream of the table."""

warning = Severity("warning")
"""Expectations that are shown as warnings, and block nothing."""

info = Severity("info")
"""Expectations that are only shown, and block nothing."""
