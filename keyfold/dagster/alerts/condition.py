"""Compare conditions from look to look: each is raised once and cleared once. Pure functions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

_GRAVITY = {"warning": 0, "error": 1}


@dataclass(frozen=True)
class Condition:
    """A fault.

    Attributes:
        name: identifies the condition when it is raised and when it is cleared, for example `job rides`.
        severity: an error stops or delays data; a warning does not yet.
        what: what is wrong, in one line.
        remedy: what to do, in one line.
        details: values for programs, such as the run's id.
    """

    name: str
    severity: Literal["warning", "error"]
    what: str
    remedy: str
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """A condition that was raised or cleared.

    Attributes:
        state: `raised` or `cleared`.
        condition: the condition, as it was raised.
        at: when the change was found, in seconds since 1970.
    """

    state: Literal["raised", "cleared"]
    condition: Condition
    at: float


Raised = Mapping[str, Condition]
"""Raised conditions, by name."""

Event = tuple[str, Condition | None]
"""A condition's name, and the condition; None if it is over."""


def follow(raised: Raised, events: Iterable[Event], now: float) -> tuple[dict[str, Condition], tuple[Change, ...]]:
    """Return the conditions raised after some events, and the changes to report.

    A condition is reported when it is raised, when a warning becomes an error, and when it is over.
    """
    after, changes = dict(raised), list[Change]()
    for name, condition in events:
        before = after.get(name)
        if condition is None:
            if before is not None:
                changes.append(Change("cleared", after.pop(name), now))
        # An error that becomes a warning is stored without a report, so that it is reported again if it becomes an error.
        elif before is None or before.severity != condition.severity:
            after[name] = condition
            if before is None or _GRAVITY[condition.severity] > _GRAVITY[before.severity]:
                changes.append(Change("raised", condition, now))
    return after, tuple(changes)


def all_found(raised: Raised, found: Iterable[Condition]) -> list[Event]:
    """Return the events of a look that finds all present conditions: a raised one that it did not find is over."""
    present = {condition.name: condition for condition in found}
    return [*present.items(), *((name, None) for name in raised if name not in present)]
