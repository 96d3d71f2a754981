"""Declare expectations as plain values, in the form of Great Expectations' (GX) JSON.

`critical`, `warning` and `info` make them. Their fields are those of GX, so its documentation applies, and
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


def critical(kind: str, description: str, /, **kwargs: Any) -> Expectation:
    """Return an expectation that blocks assets downstream of the table.

    Args:
        kind: GX's name of the expectation.
        description: shown to people.
        kwargs: GX's arguments of the expectation.

    Example:
        >>> critical("expect_column_values_to_not_be_null", "Every row names its ride.", column="ride_id")["severity"]
        'critical'
    """
    return {"type": kind, "kwargs": kwargs, "severity": "critical", "description": description}


def warning(kind: str, description: str, /, **kwargs: Any) -> Expectation:
    """Return an expectation that is shown as a warning, and blocks nothing. Arguments as in `critical`."""
    return {"type": kind, "kwargs": kwargs, "severity": "warning", "description": description}


def info(kind: str, description: str, /, **kwargs: Any) -> Expectation:
    """Return an expectation that is only shown, and blocks nothing. Arguments as in `critical`."""
    return {"type": kind, "kwargs": kwargs, "severity": "info", "description": description}
