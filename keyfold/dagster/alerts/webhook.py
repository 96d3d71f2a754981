"""The webhook: one POST of JSON, within one bound, without its URL in any text.

It is not Apprise's own `json://`, which sends a text without the lists for programs, and puts no bound on a whole exchange.
"""

import json
from collections.abc import Mapping
from typing import Any

from keyfold.dagster.alerts.outbox import NotTakenError, RefusedError
from keyfold.dagster.alerts.settings import WEBHOOK
from keyfold.exchange.exchange import Exchanges

SECONDS = 10.0
"""Within which a message must be taken: looking up the name, connecting, sending, and the answer's last byte."""

_REFUSED = {400, 413, 414, 415, 422}
"""The message itself is refused. Whatever else it answers may change, and be it that somebody mends the URL."""


def post(url: str, content: Mapping[str, Any], seconds: float = SECONDS) -> None:
    """Send JSON to a webhook.

    Args:
        url: http or https; no redirect from there is followed, since it might lead anywhere.
        content: what to send.
        seconds: within which all of it must be over.

    Raises:
        NotTakenError: the webhook cannot be had, is too slow, or does not take messages now.
        RefusedError: it will not take this message.
    """
    try:
        with Exchanges(
            url, {"Content-Type": "application/json", "User-Agent": "keyfold"}, timeout=seconds, max_connections=1
        ) as exchanges:
            status = exchanges.post(json.dumps(content).encode(), {}).status
    except TimeoutError:
        reason = f"no whole answer within {seconds:g} s"
    except Exception as error:  # texts of httpx's, and of what it calls, may hold the URL
        reason = type(error.__cause__ or error).__name__
    else:
        if status < 300:
            return
        if status in _REFUSED:
            raise RefusedError(f"the webhook of {WEBHOOK} answered {status}")
        reason = f"it answered {status}"
    # Without its cause, which a traceback would show: that text may hold the URL.
    raise NotTakenError(f"the webhook of {WEBHOOK} cannot be had: {reason}") from None
