"""Format alerts as text for people and as values for programs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from keyfold.dagster.alerts.condition import Change

LINES = 20
"""Largest number of alerts in one text."""
_LONGEST = 400
"""Largest number of characters of a finding or a remedy; PagerDuty takes 1,024 for both together."""


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        title: for a single change, the condition's name, by which PagerDuty resolves the incident that it has triggered.
        body: lines of text.
        kind: the severity in Apprise's terms: failure, warning or success.
    """

    title: str
    body: str
    kind: str


def entry(change: Change) -> dict[str, Any]:
    """Return a change as JSON, for the outbox and the webhook's lists."""
    condition = change.condition
    return {
        "state": change.state,
        "condition": condition.name,
        "severity": condition.severity,
        "what": plain(condition.what),
        "remedy": plain(condition.remedy),
        "at": f"{datetime.fromtimestamp(change.at, UTC):%Y-%m-%dT%H:%M:%SZ}",
        **condition.details,
    }


def line(one: dict[str, Any]) -> str:
    """Format an entry as one line."""
    if one["state"] == "cleared":
        return plain(f"over: {one['condition']}", _LONGEST)
    return f"{one['severity']}: {plain(one['condition'])}: {one['what']}. Remedy: {one['remedy']}"


def message(entries: Sequence[dict[str, Any]], lost: int = 0) -> Message:
    """Build one message from one or more entries; it lists the first twenty, and the number of lost alerts."""
    raised = [one for one in entries if one["state"] == "raised"]
    over = [one for one in entries if one["state"] == "cleared"]
    if len(entries) == 1:
        title = f"Keyfold: {plain(entries[0]['condition'])}"
    else:
        counts = ((len(raised), "raised"), (len(over), "over"))
        title = "Keyfold: " + ", ".join(f"{count} {state}" for count, state in counts if count)
    lines = [line(one) for one in (*raised, *over)]
    more = [f"and {len(lines) - LINES} more"] if len(lines) > LINES else []
    gone = [f"{lost} earlier {'alert' if lost == 1 else 'alerts'} could not be delivered"] if lost else []
    kind = "success" if not raised else "failure" if any(one["severity"] == "error" for one in raised) else "warning"
    return Message(title, "\n".join((*lines[:LINES], *more, *gone)), kind)


def content(entries: Sequence[dict[str, Any]], lost: int = 0) -> dict[str, Any]:
    """Build the webhook's JSON: a `text`, which chat services show, and lists `raised` and `cleared` for programs."""
    built = message(entries, lost)
    lists = {state: [one for one in entries if one["state"] == state] for state in ("raised", "cleared")}
    return {"text": f"{built.title}\n{built.body}", **lists, **({"lost_alerts": lost} if lost else {})}


def plain(text: str, longest: int = _LONGEST) -> str:
    """Return text as one line without markup and addresses.

    A check's description may quote rows, which may contain anything. Chat services render Markdown links and images, and take
    text in `<>` for links and for mentions of everybody. Addresses may contain secrets.
    """
    shown = _ADDRESS.sub(r"\1…", text).translate(_BRACKETS).replace("](", "] (")
    shown = " ".join("".join(one if one.isprintable() else " " for one in shown).split())
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


_BRACKETS = str.maketrans("<>", "‹›")
_ADDRESS = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*://)[^\s'\"]+")
