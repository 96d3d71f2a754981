"""Send alerts to the webhook: one POST of JSON with a time limit; no message contains the URL.

Apprise's own `json://` is not used: it sends no lists for programs, and has no time limit for a whole exchange.
"""

import json
from collections.abc import Mapping
from typing import Any

from keyfold.dagster.alerts.outbox import NotTakenError, RefusedError
from keyfold.dagster.alerts.settings import WEBHOOK
from keyfold.exchange.exchange import Exchanges

SECONDS = 10.0
"""Time limit for the whole exchange: name lookup, connecting, sending, and reading the answer."""

_REFUSED = {400, 413, 414, 415, 422}
"""These statuses refuse the message itself. Other errors may pass, for example when somebody corrects the URL."""


def post(url: str, content: Mapping[str, Any], seconds: float = SECONDS) -> None:
    """Send JSON to a webhook.

    Args:
        url: http or https; redirects are not followed.
        content: the JSON object to send.
        seconds: time limit for the whole exchange.

    Raises:
        NotTakenError: the webhook cannot be reached, is too slow, or does not accept messages now.
        RefusedError: it refuses this message.
    """
    try:
        with Exchanges(
            url, {"Content-Type": "application/json", "User-Agent": "keyfold"}, timeout=seconds, max_connections=1
        ) as exchanges:
            status = exchanges.post(json.dumps(content).encode(), {}).status
    except TimeoutError:
        reason = f"no complete answer within {seconds:g} s"
    except Exception as error:  # the texts of httpx's errors may contain the URL
        reason = type(error.__cause__ or error).__name__
    else:
        if status < 300:
            return
        if status in _REFUSED:
            raise RefusedError(f"the webhook of {WEBHOOK} answered {status}")
        reason = f"it answered {status}"
    # Without the cause, whose text in a traceback may contain the URL.
    raise NotTakenError(f"the webhook of {WEBHOOK} cannot be reached: {reason}") from None
