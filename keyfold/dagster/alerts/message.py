"""What an alert says: the text for people, and the same as values for programs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from keyfold.dagster.alerts.condition import Change

LINES = 20
"""Alerts that a text names at most."""
_LONGEST = 400
"""Characters of a finding or a remedy: PagerDuty takes 1,024 of both."""


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        title: of one change its condition's name, so that PagerDuty resolves what it has triggered.
        body: lines of text.
        kind: how grave it is, in Apprise's words: failure, warning or success.
    """

    title: str
    body: str
    kind: str


def entry(change: Change) -> dict[str, Any]:
    """A change as JSON: what waits in the outbox, and what the webhook's lists hold."""
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
    """An entry in one line."""
    if one["state"] == "cleared":
        return plain(f"over: {one['condition']}", _LONGEST)
    return f"{one['severity']}: {plain(one['condition'])}: {one['what']}. Remedy: {one['remedy']}"


def message(entries: Sequence[dict[str, Any]], lost: int = 0) -> Message:
    """One message of entries, at least one; it names the first twenty, and how many were lost before them."""
    raised = [one for one in entries if one["state"] == "raised"]
    over = [one for one in entries if one["state"] == "cleared"]
    if len(entries) == 1:
        title = f"Keyfold: {plain(entries[0]['condition'])}"
    else:
        counts = ((len(raised), "raised"), (len(over), "over"))
        title = "Keyfold: " + ", ".join(f"{count} {said}" for count, said in counts if count)
    lines = [line(one) for one in (*raised, *over)]
    more = [f"and {len(lines) - LINES} more"] if len(lines) > LINES else []
    gone = [f"{lost} before this could not be delivered and {'is' if lost == 1 else 'are'} lost"] if lost else []
    kind = "success" if not raised else "failure" if any(one["severity"] == "error" for one in raised) else "warning"
    return Message(title, "\n".join((*lines[:LINES], *more, *gone)), kind)


def content(entries: Sequence[dict[str, Any]], lost: int = 0) -> dict[str, Any]:
    """The webhook's JSON: a `text`, which chat services show, and lists `raised` and `cleared` for programs."""
    told = message(entries, lost)
    lists = {state: [one for one in entries if one["state"] == state] for state in ("raised", "cleared")}
    return {"text": f"{told.title}\n{told.body}", **lists, **({"lost_alerts": lost} if lost else {})}


def plain(text: str, longest: int = _LONGEST) -> str:
    """One line that no chat service takes for more, without addresses.

    What a check found may be anything that somebody has put into a row. Where services know Markdown, a link or an image
    has its address after `](`; some take what stands in `<>` for links and for calls to everybody. Addresses may hold secrets.
    """
    shown = _ADDRESS.sub(r"\1…", text).translate(_BRACKETS).replace("](", "] (")
    shown = " ".join("".join(one if one.isprintable() else " " for one in shown).split())
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


_BRACKETS = str.maketrans("<>", "‹›")
_ADDRESS = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*://)[^\s'\"]+")
