"""How alerts are sent: by the webhook, or by Apprise in a process of its own.

Apprise knows some hundred services, and its address is the whole setting: `slack://`, `mailtos://`, `pagerduty://`. A process
of its own can be ended when a service does not: no answer, however slow, holds up the other destinations. The address goes
to it by its standard input, and what it logs is not kept, since texts of libraries may hold the address.
"""

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from keyfold.dagster.alerts.message import LINES, content, message
from keyfold.dagster.alerts.outbox import MOST_WAITING, NotTakenError, Send
from keyfold.dagster.alerts.settings import ALERTS, Destination
from keyfold.dagster.alerts.webhook import post
from keyfold.errors import Misconfigured

SECONDS = 30.0
"""Within which Apprise must be loaded, and a service take a message."""

_WRONG_ADDRESS = 64
_CHILD = [sys.executable, "-m", "keyfold.dagster.alerts.senders"]


def sender(to: Destination, seconds: float | None = None) -> Send:
    """What sends alerts to a destination."""
    if to.name == "webhook":
        return lambda entries, lost: post(to.url, content(entries, lost), *([seconds] if seconds else []))

    def send(entries: Sequence[dict[str, Any]], lost: int) -> None:
        told = message(list(entries), lost)
        order = {"url": to.url, "title": told.title, "body": told.body, "kind": told.kind}
        failed = _in_a_process(order, seconds or SECONDS)
        if failed is not None:
            raise NotTakenError(f"{to.name} of {ALERTS} has not taken the message: {failed[1]}")

    return send


def most_in_a_message(to: Destination) -> int:
    """The webhook's lists hold all; PagerDuty makes an incident of a message, and resolves it by the title: one alert each."""
    return {"webhook": MOST_WAITING, "pagerduty": 1}.get(to.service, LINES)


def check_addresses(destinations: Sequence[Destination]) -> None:
    """See that Apprise knows every address.

    Raises:
        KeyfoldError: it does not; names the address by its number.
    """
    for to in destinations:
        if to.name != "webhook" and (failed := _in_a_process({"url": to.url}, SECONDS)) and failed[0] == _WRONG_ADDRESS:
            raise Misconfigured(
                f"{ALERTS}: {to.name} is no address that Apprise knows: see Apprise's page of that service"
            )


def _in_a_process(order: dict[str, str], seconds: float) -> tuple[int, str] | None:
    """Have Apprise do it; None where it was done, else the exit code and the reason."""
    try:
        done = subprocess.run(
            _CHILD, input=json.dumps(order), capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, f"not within {seconds:g} s"
    if done.returncode == 0:
        return None
    return done.returncode, done.stdout.strip() or "Apprise itself fails"


def _send(order: dict[str, str]) -> int:
    import apprise  # noqa: PLC0415 - it loads every service, which only this process needs

    asset = apprise.AppriseAsset(app_id="Keyfold", async_mode=False, http_redirects=False)
    services = apprise.Apprise(asset=asset)
    if not services.add(order["url"]):
        return _WRONG_ADDRESS
    for one in services:
        if order["url"].startswith("pagerduty://") and "action=" not in order["url"]:
            # Resolves the incident when it is over, by the title, which is then the same.
            one.action = "map"  # pyright: ignore[reportAttributeAccessIssue]
    if "title" not in order:
        return 0
    kind = apprise.NotifyType(order["kind"])
    logged: Any
    with apprise.LogCapture(level=logging.WARNING) as logged:
        taken = services.notify(order["body"], order["title"], kind, body_format=apprise.NotifyFormat.TEXT)
        # Nothing else of it: texts of libraries may hold the address.
        status = re.search(r"\berror=(\d{3})\b", logged.getvalue())
    print(f"it answered {status[1]}" if status else "it cannot be had, or refuses the login")
    return 0 if taken else 1


if __name__ == "__main__":
    code = _send(json.load(sys.stdin))
    sys.stdout.flush()
    os._exit(code)  # a thread of Apprise's may wait for a service yet
