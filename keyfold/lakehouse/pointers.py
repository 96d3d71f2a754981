"""Pointers to the live generations of jobs. One is replaced atomically, and several can be switched atomically together.

To switch several, each pointer first gets the next generation beside the live one, and the path of a decision file. Creating
that one file makes the next generation live for all of them. After a crash before that, nothing has changed.
"""

from typing import Any

from keyfold.storage.place import Place

NEXT = "next"


def announced(content: dict[str, Any] | None, generation: str, decision: Place) -> dict[str, Any]:
    """Return a pointer's content, with a generation that becomes live when the decision file exists."""
    return {
        **(content or {}),
        NEXT: {"generation": generation, "decided_by": f"{decision.parent.name}/{decision.name}"},
    }


def decision_of(pointer: Place, content: dict[str, Any]) -> Place | None:
    """Return the decision file that a pointer depends on; None if it depends on none."""
    return pointer.parent.parent / content[NEXT]["decided_by"] if NEXT in content else None


def as_decided(pointer: Place, content: dict[str, Any]) -> dict[str, Any] | None:
    """Return a pointer's effective content: the next generation if it is decided, else the live one; None if none is live."""
    decision = decision_of(pointer, content)
    if decision is None:
        return content
    if decision.exists():
        return {"generation": content[NEXT]["generation"]}
    return {name: value for name, value in content.items() if name != NEXT} or None
