"""What a suite is made of: expectations as Great Expectations writes them down, in plain values.

`critical`, `warning` and `info` make them. `type`, `kwargs` and the rest are those of GX's own JSON, so that what its
documentation says holds here, and
`great_expectations.ExpectationSuite(name, expectations=[*EXPECTATIONS.values()])` is the suite in GX. Nothing here
imports it: that takes seconds, and whoever only wants to know which checks a table has need not wait.
"""

from typing import Any, Literal, NotRequired, TypedDict


class Expectation(TypedDict):
    """An expectation.

    Attributes:
        type: what is expected, by GX's name for it.
        kwargs: of which columns, within which bounds; and `row_condition`, where only some rows are meant.
        severity: `critical` holds back whatever is built on the table; `warning` and `info` hold nothing back.
        description: for people.
        meta: whatever else belongs to it; GX carries it along.
        notes: shown with the expectation in Data Docs, in Markdown.
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
    """An expectation that holds back whatever is built on the table.

    Args:
        kind: GX's name of it.
        description: for people.
        kwargs: of GX.

    Example:
        >>> critical("expect_column_values_to_not_be_null", "Every row names its ride.", column="ride_id")["severity"]
        'critical'
    """
    return {"type": kind, "kwargs": kwargs, "severity": "critical", "description": description}


def warning(kind: str, description: str, /, **kwargs: Any) -> Expectation:
    """An expectation that is shown as a warning, and holds nothing back; as `critical` otherwise."""
    return {"type": kind, "kwargs": kwargs, "severity": "warning", "description": description}


def info(kind: str, description: str, /, **kwargs: Any) -> Expectation:
    """An expectation that is shown, and holds nothing back; as `critical` otherwise."""
    return {"type": kind, "kwargs": kwargs, "severity": "info", "description": description}
