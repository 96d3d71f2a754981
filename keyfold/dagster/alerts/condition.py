"""Conditions: what is wrong, raised once and cleared once; pure functions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

_GRAVITY = {"warning": 0, "error": 1}


@dataclass(frozen=True)
class Condition:
    """Something that is wrong.

    Attributes:
        name: the same when it is raised and when it is cleared, for example `job rides`.
        severity: an error stops rows or holds them back; a warning does not yet.
        what: what was found, in one line.
        remedy: what to do, in one line.
        details: for programs, such as the run.
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
        state: which of the two.
        condition: as it was raised.
        at: when it was found, seconds since 1970.
    """

    state: Literal["raised", "cleared"]
    condition: Condition
    at: float


Raised = Mapping[str, Condition]
"""What is raised, by name."""

Event = tuple[str, Condition | None]
"""A name with its condition, None where it is over."""


def follow(raised: Raised, events: Iterable[Event], now: float) -> tuple[dict[str, Condition], tuple[Change, ...]]:
    """What is raised after events, and what is to be reported of them.

    A condition is reported when it is raised, when a warning becomes an error, and when it is over.
    """
    after, changes = dict(raised), list[Change]()
    for name, condition in events:
        before = after.get(name)
        if condition is None:
            if before is not None:
                changes.append(Change("cleared", after.pop(name), now))
        elif before is None or before.severity != condition.severity:
            after[name] = condition
            if before is None or _GRAVITY[condition.severity] > _GRAVITY[before.severity]:
                changes.append(Change("raised", condition, now))
    return after, tuple(changes)


def all_found(raised: Raised, found: Iterable[Condition]) -> list[Event]:
    """The events of a look that finds every condition there is: what is raised and was not found is over."""
    there = {condition.name: condition for condition in found}
    return [*there.items(), *((name, None) for name in raised if name not in there)]
