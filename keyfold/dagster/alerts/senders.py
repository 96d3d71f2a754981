"""Send alerts by the webhook, or by Apprise in a child process.

Apprise supports about a hundred services, each configured by one address: `slack://`, `mailtos://`, `pagerduty://`. A child
process can be killed when a service hangs, so that it does not delay the other destinations. The child gets the address on
standard input, and its log is discarded, since messages of libraries may contain the address.
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
"""Time limit for loading Apprise and delivering a message."""

_WRONG_ADDRESS = 64
_CHILD = [sys.executable, "-m", "keyfold.dagster.alerts.senders"]


def sender(to: Destination, seconds: float | None = None) -> Send:
    """Return the function that sends alerts to a destination."""
    if to.name == "webhook":
        return lambda entries, lost: post(to.url, content(entries, lost), *([seconds] if seconds else []))

    def send(entries: Sequence[dict[str, Any]], lost: int) -> None:
        built = message(list(entries), lost)
        order = {"url": to.url, "title": built.title, "body": built.body, "kind": built.kind}
        failed = _in_a_process(order, seconds or SECONDS)
        if failed is not None:
            raise NotTakenError(f"{to.name} of {ALERTS} did not accept the message: {failed[1]}")

    return send


def most_in_a_message(to: Destination) -> int:
    """Return the largest number of alerts in a message; one for PagerDuty, which makes an incident of each message."""
    return {"webhook": MOST_WAITING, "pagerduty": 1}.get(to.service, LINES)


def check_addresses(destinations: Sequence[Destination]) -> None:
    """Check that Apprise supports every address.

    Raises:
        KeyfoldError: it does not support one; the message names it by number.
    """
    for to in destinations:
        if to.name != "webhook" and (failed := _in_a_process({"url": to.url}, SECONDS)) and failed[0] == _WRONG_ADDRESS:
            raise Misconfigured(
                f"{ALERTS}: {to.name} is not an address that Apprise supports: see Apprise's page of that service"
            )


def _in_a_process(order: dict[str, str], seconds: float) -> tuple[int, str] | None:
    """Run Apprise in a child process; return None on success, else the exit code and the reason."""
    try:
        done = subprocess.run(
            _CHILD, input=json.dumps(order), capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {seconds:g} s"
    if done.returncode == 0:
        return None
    return done.returncode, done.stdout.strip() or "Apprise itself failed"


def _send(order: dict[str, str]) -> int:
    import apprise  # noqa: PLC0415 - it loads every service, which only this process needs

    asset = apprise.AppriseAsset(app_id="Keyfold", async_mode=False, http_redirects=False)
    services = apprise.Apprise(asset=asset)
    if not services.add(order["url"]):
        return _WRONG_ADDRESS
    for one in services:
        if order["url"].startswith("pagerduty://") and "action=" not in order["url"]:
            # With this action, PagerDuty resolves the incident by a later message of the same title.
            one.action = "map"  # pyright: ignore[reportAttributeAccessIssue]
    if "title" not in order:
        return 0
    kind = apprise.NotifyType(order["kind"])
    logged: Any
    with apprise.LogCapture(level=logging.WARNING) as logged:
        taken = services.notify(order["body"], order["title"], kind, body_format=apprise.NotifyFormat.TEXT)
        # Only the status is reported: the rest of the log may contain the address.
        status = re.search(r"\berror=(\d{3})\b", logged.getvalue())
    print(f"it answered {status[1]}" if status else "it cannot be reached, or refuses the login")
    return 0 if taken else 1


if __name__ == "__main__":
    code = _send(json.load(sys.stdin))
    sys.stdout.flush()
    os._exit(code)  # do not wait for Apprise's threads, which may still wait for a service
