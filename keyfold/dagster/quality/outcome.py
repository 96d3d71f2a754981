"""Hold outcomes of expectations in Great Expectations' terms, without its classes, which take seconds to import."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from keyfold.dagster.quality.serialised import SerialisedExpectation


@dataclass
class Outcome:
    """The outcome of an expectation.

    Attributes:
        check: the name of its check.
        expectation: the expectation.
        success: whether it holds.
        result: counts, observed values and samples, with the names of GX's results.
        problem: why it could not be evaluated; None if it was.
    """

    check: str
    expectation: SerialisedExpectation
    success: bool
    result: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None


@dataclass
class Validation:
    """The outcomes of a suite, or of a part of it.

    Attributes:
        suite: the name of the suite.
        outcomes: one for each expectation, in the suite's order.
        meta: what a page also shows, such as the scope.
    """

    suite: str
    outcomes: Sequence[Outcome]
    meta: dict[str, str] = field(default_factory=dict)
