"""Pointers to jobs' live generations: one is replaced in one step, and those of several jobs count as one.

Each of several first gets what comes next beside what is live, and the name of a decision. The decision is one small file: once
it is there, what comes next is live for all of them; who dies before that leaves all as they were.
"""

from typing import Any

from keyfold.storage.place import Place

NEXT = "next"


def announced(told: dict[str, Any] | None, generation: str, decision: Place) -> dict[str, Any]:
    """A pointer that names another generation as soon as a decision is made."""
    return {**(told or {}), NEXT: {"generation": generation, "decided_by": f"{decision.parent.name}/{decision.name}"}}


def decision_of(pointer: Place, told: dict[str, Any]) -> Place | None:
    """The file of the decision that a pointer waits for; None of one that waits for none."""
    return pointer.parent.parent / told[NEXT]["decided_by"] if NEXT in told else None


def as_decided(pointer: Place, told: dict[str, Any]) -> dict[str, Any] | None:
    """What a pointer says now: what comes next where that is decided; None where nothing was live before."""
    decision = decision_of(pointer, told)
    if decision is None:
        return told
    if decision.exists():
        return {"generation": told[NEXT]["generation"]}
    return {name: value for name, value in told.items() if name != NEXT} or None
